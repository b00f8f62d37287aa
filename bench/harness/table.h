// The table that a bench prints while it runs, one line per row, with nccl-tests' habits: fixed columns, a
// header with units, `#` in front of everything that is not data.
#pragma once

#include <cstdio>
#include <string>

#include "results/row.h"

namespace thinwire::bench {

class RowTable {
 public:
  explicit RowTable(std::FILE* to) : to_(to) {}
  /// Prints a header first when the kind of row (codec alone, or transfer) changes. Flushes.
  void print(const results::CellRow& row);

 private:
  void print_pass(const results::CellRow& row);
  void print_device_codec(const results::CellRow& row);
  void print_device_kernel(const results::CellRow& row);
  void end(const results::CellRow& row);
  std::FILE* to_;
  std::string kind_;
};

}  // namespace thinwire::bench
