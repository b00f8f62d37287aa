// A module split over the ranks in one mode (1, 2, 2.5 or 3 dimensions) as rows of a cell: what codecs lose, bytes per collective, peak memory,
// time of the forward and the backward pass, rate of the products.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/harness/bench_program.h"
#include "bench/tensor_parallel/split_reference.h"
#include "collectives/link/link_drain.h"

namespace thinwire::bench {

/// The traffic classes that a codec may compress here.
inline constexpr std::array coded_classes = {TrafficClass::tp_forward, TrafficClass::tp_backward, TrafficClass::tp_weight, TrafficClass::tp_weight_gradient};

/// One mode of one cell, on all ranks. Collective.
class ModeRun {
 public:
  ModeRun(BenchContext& context, const Cell& cell, const GridShape& shape, const SplitSizes& s);

  /// The row that stands for a mode that cannot run.
  results::CellRow skipped(const std::string& reason) const;

  /// Appends the rows of this mode. `reference`: the same module on one rank, whose results these are held against. Throws WrongResult.
  void run(const SplitReference& reference, LinkDrain* drain, Measured& measured);

 private:
  const CompressRule& rule(TrafficClass traffic) const;
  /// "quantize:bits=8", or class by class where they differ.
  std::string codecs() const;

  void add_errors(const SplitErrors& errors, Measured& measured);

  /// The products of one pass on a rank that has the machine to itself, beside bare ones of the same shapes; the fastest of some repetitions
  /// each, means over ranks.
  void add_products(ShardedModule<float>& unit, const std::string& pass, const std::function<void()>& body, Measured& measured);

  /// Rows of every collective and of the pass; returns its sum on this rank.
  OperationReport add_collectives(const std::string& pass, const std::map<std::string, TensorGrid<float>::Count>& counts, Measured& measured);

  /// Sorted union over ranks of lines.
  std::vector<std::string> labels_of_all(const std::string& mine);

  // With more ranks than cores every product is measured alone and then replayed as a wait (docs/measuring.md).
  void time(ShardedModule<float>& unit, const std::function<void()>& forward, const std::function<void()>& backward, LinkDrain* drain, Measured& measured);

  BenchContext& context_;
  Communicator& world_;
  const Cell& cell_;
  const GridShape shape_;
  const SplitSizes sizes_;
  results::CellRow common_;
};

}  // namespace thinwire::bench
