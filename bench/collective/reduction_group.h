// Sums over ranks of gradients: data-parallel (one reduction, to all ranks or each row to its owner) and tied embeddings (two steps or one
// fused); and the way back, where weights are gathered from the owners of their rows.
// Cells that differ in the codec and protocol only share inputs and the dense baseline.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bench/collective/exchange.h"
#include "bench/harness/baseline.h"
#include "bench/harness/inputs.h"
#include "bench/harness/measure.h"
#include "models/parallel/channels/row_exchange.h"

namespace thinwire::bench {

/// The sum of a tensor over all ranks, as one reduction or as a chain of reductions over sub-groups; or a tensor gathered from blocks of rows.
struct ReductionPlan {
  TrafficClass traffic = TrafficClass::dp_gradient;
  std::string operation = "all_reduce";  ///< for the record; "reduce_scatter" and "all_gather" run these forms (single step only)
  std::vector<std::unique_ptr<Communicator>> steps;  ///< reduced over one after another
  std::unique_ptr<Series> series;        ///< this rank's input; all_gather: the whole, equal on all ranks, of which it sends its rows
  int part = 0;
  std::vector<std::pair<std::unique_ptr<Series>, int>> everybody;  ///< inputs of all ranks whose sum this is, for the reference
  /// Which of how many equal parts of the result this rank verifies; 0 parts: the rank's of the world's.
  int share = 0, shares = 0;
  /// The result is compared with what these reductions, dense in f32, make of the same input, instead of with the float64 sum.
  std::vector<std::unique_ptr<Communicator>> compared_with = {};
  /// `steps` are those of the released form: then a dense codec, which has no forms, goes with it.
  bool released_steps = false;
  /// False: another sum than the reference by design (a released defect); its error is recorded, whatever it is.
  bool verified = true;
  bool overlap_blocks = true;  ///< ChannelOptions
  /// Nodes of several ranks: a reduce_scatter or all_gather of the world goes in two steps, inside and across (bench/collective/exchange.h). `steps` holds the world.
  DataAxis axis = {};
  int under_way = 1;  ///< matrices at once; bytes and times are of all of them
};

class ReductionGroup {
 public:
  ReductionGroup(BenchContext& context, const CellParameters& parameters, ReductionPlan plan);
  void run(std::span<const Cell> cells);

 private:
  struct Pending {
    Cell cell;
    Measured measured;
    CodecLaps laps;
    StepBytes steps;
    double bare_us = results::not_measured;  ///< in two steps: with codecs that take no time
    bool good = true;
  };
  /// Dense channels of one algorithm; they live as long as the group, as those of a cell do.
  struct DenseBaseline {
    std::unique_ptr<Exchange> exchange;
    std::vector<Tensor> outs;
  };
  void baseline_round();
  bool scatters() const { return plan_.operation == "reduce_scatter"; }
  bool gathers() const { return plan_.operation == "all_gather"; }
  RowOwners owners() const { return {plan_.axis, {0, context_.world.rank() / plan_.axis.inside, context_.world.rank() % plan_.axis.inside, context_.world.rank()}}; }
  Shape result_shape() const;
  void measure(Pending& pending);
  std::unique_ptr<Exchange> make_exchange(const ChannelOptions& options, const std::string& inside);
  void add_steps(Pending& pending, const StepBytes& baseline) const;
  RowBlock own_block() const;
  RowBlock result_block() const;

  BenchContext& context_;
  ReductionPlan plan_;
  ComputePlan compute_;
  DType wire_;
  int repetitions_, serial_;
  std::vector<Tensor> inputs_, wire_inputs_;  ///< what this rank puts in, per captured step
  Shape whole_;                               ///< of the tensor that all ranks share
  std::vector<double> reference_;             ///< my block of the float64 sum at the last step; all_gather: the whole
  Baseline baseline_;
  std::vector<DenseBaseline> baselines_;
};

/// The options that both benches share.
std::vector<BenchOption> reduction_options();

}  // namespace thinwire::bench
