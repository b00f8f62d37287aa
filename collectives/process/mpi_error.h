// Every MPI call goes through this macro: an error names the expression, the place and MPI's own words.
#pragma once

#include <mpi.h>

namespace thinwire::detail {
[[noreturn]] void throw_mpi(int code, const char* expression, const char* file, int line);
}

/// Evaluates an MPI call; anything but MPI_SUCCESS throws RuntimeFailure (communicators return errors).
#define TW_MPI(expression)                                                             \
  do {                                                                                 \
    if (const int tw_mpi_code = (expression); tw_mpi_code != MPI_SUCCESS) [[unlikely]] \
      ::thinwire::detail::throw_mpi(tw_mpi_code, #expression, __FILE__, __LINE__);     \
  } while (false)
