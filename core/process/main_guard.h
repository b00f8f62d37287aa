// One guarded main: any escape becomes a message on stderr, a journal entry, and one abort of the whole job.
#pragma once

#include <functional>

#include "core/error.h"

namespace thinwire {

/// Called once with the exit status and message when the program fails. The journal and the communicator
/// register themselves here (core knows neither): journal first, abort of the other ranks last.
using FailureHook = std::function<void(int exit_status, const std::string& message)>;
/// Hooks run in ascending order of `priority` (journal 0, MPI_Abort 100). Returns an id for remove.
int add_failure_hook(int priority, FailureHook hook);
void remove_failure_hook(int id);

/// Reports a failure as guarded_main does, then exits the process. For watchdog threads.
[[noreturn]] void fail_process(int exit_status, const std::string& message);

/// Starts the program anew where OpenBLAS took kernels of another age (blas_kernels.h). Runs `body`; maps thinwire errors to their exit code, std::bad_alloc and others to 6. Installs handlers
/// that print a back-trace on fatal signals.
int guarded_main(int argc, char** argv, const std::function<int(int, char**)>& body);

}  // namespace thinwire
