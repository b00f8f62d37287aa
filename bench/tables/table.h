// The table that a bench prints while it runs, one line per row, with nccl-tests' habits: fixed columns, a
// header with units, `#` in front of everything that is not data.
#pragma once

#include <cstdio>

#include "results/row.h"

namespace thinwire::bench {

class RowTable {
 public:
  explicit RowTable(std::FILE* to) : to_(to) {}
  /// Prints a header first when the kind of row (codec alone, transfer, whole pass, kernel) changes. Flushes.
  void print(const results::CellRow& row);

 private:
  std::FILE* to_;
  const void* kind_ = nullptr;  ///< the columns that the last header named
};

}  // namespace thinwire::bench
