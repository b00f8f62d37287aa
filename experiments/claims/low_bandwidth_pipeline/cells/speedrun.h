// The speedrun's two records and its link (docs/papers/low_bandwidth_pipeline.md, "The contest's link"), and
// cells in which sleeping ranks take their steps on an emulated one.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/cells.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/meter_walk.h"

namespace thinwire::claims::low_bandwidth_pipeline {

inline constexpr int stages = 8;
inline constexpr Wire contest = {.rate = 200e6, .latency = 0.05};
inline constexpr std::int64_t tokens_of_a_step = 524288;

struct Baseline {
  std::string name;
  int micro_batches;
  std::int64_t message_bytes;
  double measured;  ///< seconds of a step, read in the contest's records
  Passes passes;    ///< their share of the step that was measured with links off, split 1 : 2
};
/// Dense bf16 in 64 micro-batches, the subspace network in 32.
const std::vector<Baseline>& baselines();

/// A pipeline of sleeping ranks (bench_pipeline) on the contest's link with all times divided by `faster` and
/// messages and rate by `smaller`; what counts of such a cell are its last three windows.
CellRequest sleeping(int pipeline_stages, int micro_batches, std::int64_t message_bytes, const Passes& passes,
                     double faster, std::int64_t smaller, int steps);

struct SleptStep {
  double seconds = no_number;  ///< median of the windows, of the full contest's link again
  double spread = no_number;   ///< largest over smallest window - 1
};
SleptStep slept(const results::CellRecord& record, double faster);

}  // namespace thinwire::claims::low_bandwidth_pipeline
