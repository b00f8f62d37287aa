// What the claims about TeraPipe measure: slice times of one stage (bench_token_slices), and whole steps of token-sliced training
// (train_gpt), as cells.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/context.h"
#include "models/cost_model/slice_times.h"

namespace thinwire::claims::tensor_parallel {

struct StageSizes {
  int layers = 2, hidden = 256, heads = 8, seq = 2048, granularity = 64;
};

struct MeasuredStage {
  SliceTimes times;
  double optimizer_us = 0;
};
/// Of a stage of these sizes, alone on a core. `largest_batch`: micro-batches of up to so many sequences.
MeasuredStage measured_stage(JudgeContext& context, const StageSizes& sizes, int rounds, int largest_batch = 1);
/// "slice times": (tokens, context, forward, backward) of what was measured.
Table table_of(const MeasuredStage& stage);

/// A step of token-sliced training: `stages` of these sizes, `sequences` as micro-batches of `micro_batch`, each cut into `slices`.
struct SlicedArm {
  std::string name;
  int stages = 2, sequences = 1, micro_batch = 1;
  std::vector<int> slices;
};
/// One repetition of it. `link` "shm": real compute, one core per stage; else timed compute over that link.
CellRequest sliced_request(const StageSizes& sizes, const SlicedArm& arm, const std::string& link, int repetition);

struct SlicedStep {
  double ms = no_number;      ///< median over repetitions of the median step
  double spread_ms = no_number;  ///< largest inter-quartile range of a repetition
  std::string untrusted;      ///< reason where a cell was mistrusted or skipped
};
/// `repetitions` cells per arm, in turn, that differ in the seed of their data.
std::vector<SlicedStep> sliced_steps(JudgeContext& context, const StageSizes& sizes, const std::vector<SlicedArm>& arms, const std::string& link, int repetitions);

/// T of the arm by the closed form: sum t + (K - 1) max t, t with both boundary messages of a slice (none over shm), and the optimizer once;
/// milliseconds.
double predicted_ms(const MeasuredStage& stage, const StageSizes& sizes, const SlicedArm& arm, const std::string& link);

/// t(b, s, c) with the messages, microseconds: what the best slices are sought with.
BatchSliceTime time_with_messages(const MeasuredStage& stage, const StageSizes& sizes, const std::string& link);

}  // namespace thinwire::claims::tensor_parallel
