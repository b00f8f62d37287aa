// Rows of a check: an error, or an amount with its sum over ranks and the least and the most of a rank.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "bench/harness/bench_program.h"
#include "models/parallel/tensor/grid_check_cases.h"

namespace thinwire::bench {

class CheckRows {
 public:
  CheckRows(Communicator& world, Measured& measured) : world_(world), measured_(measured) {}
  results::CellRow common;  ///< what all rows from now on say

  void describe(const std::string& method, const GridCheckSizes& n) {
    common.method = method, common.dtype = "f64", common.codec = "none";
    common.batch = n.batch, common.seq = n.seq, common.hidden = n.in;
  }

  void error(const std::string& tensor, const std::string& operation, double relative_l2) {
    results::CellRow row = row_of(tensor, operation);
    row.relative_l2 = relative_l2, row.vnmse = relative_l2 * relative_l2;
    measured_.rows.push_back(std::move(row));
  }
  /// Bytes that this rank received. Rows `operation` (the sum over ranks), "OPERATION, least" and "OPERATION, most". Collective.
  void received(const std::string& tensor, const std::string& operation, std::int64_t mine) { amounts(tensor, operation, mine, &results::CellRow::received_bytes); }
  /// Bytes that this rank stores, likewise.
  void stored(const std::string& tensor, const std::string& operation, std::int64_t mine) { amounts(tensor, operation, mine, &results::CellRow::dense_bytes); }
  void amounts(const std::string& tensor, const std::string& operation, std::int64_t mine, std::int64_t results::CellRow::* column) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(world_.size()));
    world_.all_gather(&mine, sizeof mine, all.data())->wait();
    std::int64_t sum = 0;
    for (const std::int64_t value : all) sum += value;
    const auto add = [&](const std::string& name, std::int64_t value) {
      results::CellRow row = row_of(tensor, name);
      row.*column = value;
      measured_.rows.push_back(std::move(row));
    };
    add(operation, sum);
    add(operation + ", least", *std::min_element(all.begin(), all.end()));
    add(operation + ", most", *std::max_element(all.begin(), all.end()));
  }

 private:
  results::CellRow row_of(const std::string& tensor, const std::string& operation) const {
    results::CellRow row = common;
    row.tensor = tensor, row.operation = operation;
    return row;
  }
  Communicator& world_;
  Measured& measured_;
};

}  // namespace thinwire::bench
