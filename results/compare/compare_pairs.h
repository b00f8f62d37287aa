// Pairing for `sweep compare`: which rows of two sides are the same cell, and their samples as logarithms.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "results/compare/compare.h"
#include "results/compare/compare_rows.h"

namespace thinwire::results {

/// One row of one run, with the logarithms of its times.
struct Run {
  const CellRow* row = nullptr;
  std::vector<double> logs;  ///< one per repetition
  double scale = 0;          ///< of the logs
};

struct Unit {
  std::map<std::pair<std::string, std::size_t>, Run> a, b;  ///< by seed and position of the file
  const CellRow* first_a = nullptr;
  const CellRow* first_b = nullptr;
};

/// The columns by which cells pair.
struct Keys {
  std::vector<ColumnOf<CellRow>> columns;
  bool by_seed = false;

  explicit Keys(const CompareOptions& options) {
    std::vector<std::string> names =
        options.match.empty()
            ? std::vector<std::string>{"cell_id", "traffic", "operation", "method", "codec", "protocol", "tensor"}
            : options.match;
    by_seed = std::erase(names, "seed") > 0;
    for (const std::string& name : names) columns.push_back(cell_column(name, "--match"));
  }
  std::string of(const CellRow& row) const {
    std::string key;
    for (const auto& column : columns) key += text_of(row, column) + '\x1f';
    return key;
  }
  bool has(const std::string& name) const {
    return std::any_of(columns.begin(), columns.end(),
                       [&](const auto& c) { return c.name == name || c.name == std::string("cell_id"); });
  }
};

/// Adds the rows of one side to `units`, and new keys to `order`. Throws UsageError when two rows of a file
/// cannot be told apart.
void gather(std::map<std::string, Unit>& units, std::vector<std::string>& order,
            const std::vector<CollectedFile>& files, bool is_a, const Keys& keys,
            const CompareOptions& options);

/// Whether a row was measured; a MISTRUSTED link spoils times, not bytes or errors.
inline bool delivered(const CellRow& row) {
  return row.status == "OK" || row.status == "MISTRUSTED";
}

/// What can be told without times; Verdict::same when nothing is amiss. Sets `note` and `worse`.
Verdict exact_verdict(const CellRow& a, const CellRow& b, const Keys& keys, const CompareOptions& options,
                      ComparedCell& cell);

/// Program and link.
using GroupName = std::pair<std::string, std::string>;
inline GroupName group_of(const CellRow& row) {
  return {row.program, row.link};
}

}  // namespace thinwire::results
