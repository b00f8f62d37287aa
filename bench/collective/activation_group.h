// All methods of one (layout, shape) on one link: inputs and dense baselines are shared, cells take turns.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bench/harness/inputs.h"
#include "bench/harness/measure.h"
#include "bench/harness/baseline.h"

namespace thinwire::bench {

class ActivationGroup {
 public:
  /// Ranks are laid out tensor-parallel first: rank = stage * tp + tensor index. UsageError unless there are
  /// tp * pp ranks.
  ActivationGroup(BenchContext& context, const CellParameters& parameters);
  void run(std::span<const Cell> cells);

 private:
  /// What this rank sees of a traffic class: one tensor per step in f32 and in the wire type. A rank that only
  /// receives it keeps the last step in f32, to verify what arrives; nothing more, because these are the bulk of memory.
  struct Input {
    std::unique_ptr<Series> series;
    int part = 0;
    bool sent = true;
    std::vector<Tensor> steps, wire;
  };
  /// One stage boundary this rank takes part in; its communicator holds the upstream and downstream rank.
  struct Boundary {
    std::unique_ptr<Communicator> pair;
    bool upstream = false;  ///< this rank sends the activation (rank 0 of the pair)
    Input activation, gradient;
    std::vector<Channel> baseline;  ///< forward, backward
    Tensor baseline_out;
  };
  struct Pending {
    Cell cell;
    Measured measured;
    std::vector<CodecLaps> laps;  ///< one per row
    bool good = true;
  };

  void load_inputs();
  void make_baselines();
  void baseline_round();
  void measure(Pending& pending);
  void tensor_forward(Pending& pending);
  void boundaries(Pending& pending);
  void finish(Pending& pending);
  Tensor fit_sample(const Input& input, int parts) const;
  results::CellRow new_row(const Cell& cell, TrafficClass traffic, const Input* input) const;
  MessageKey key(const Input& input, int step, int boundary) const;

  BenchContext& context_;
  CellParameters shared_;
  ComputePlan plan_;
  int tp_, pp_, stage_, tensor_index_;
  std::int64_t rows_, hidden_;
  DType wire_;
  int repetitions_, serial_;
  int steps_ = 1;  ///< captured steps that laps take turns with; the same for all classes of a shape
  std::unique_ptr<Communicator> tensor_group_;
  Input partial_sum_;
  std::vector<double> reference_;  ///< my block of the float64 sum at the last step
  std::vector<Boundary> boundaries_;
  std::optional<Baseline> tensor_baseline_, forward_baseline_, backward_baseline_;
  std::vector<Channel> tensor_baseline_channels_;  ///< library, ring
  Tensor baseline_out_;
  int rounds_ = 0;
};

}  // namespace thinwire::bench
