// The speedrun's two records and its link (docs/papers/low_bandwidth_pipeline.md, "The contest's link"), and
// cells in which sleeping ranks take their steps on an emulated one.
#pragma once

#include <source_location>
#include <string>
#include <vector>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
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
/// CellSkipped where nothing was measured.
SleptStep slept(const results::CellRecord& record, double faster);

/// A claim that such steps take as long as expected, within 1 %, and their windows as long as one another.
struct SleptSteps {
  Claim claim;                     ///< id, statement, provenance
  std::string times;               ///< for the rule: what the cells' times are of the contest's
  std::string step, apart;         ///< for the rule: what the farthest step and windows are
  Table table;                     ///< name, and the columns measured, expected, distance, windows apart
  std::string step_name, apart_name;  ///< for people
  double faster = 1;
  double unit = 1;                 ///< seconds in which steps are expected
  std::vector<NamedRequest> cells;
  std::vector<double> expected;    ///< by cell
};
bool register_slept(SleptSteps of, std::source_location where = std::source_location::current());

}  // namespace thinwire::claims::low_bandwidth_pipeline
