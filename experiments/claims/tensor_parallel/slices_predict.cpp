// tensor_parallel.C17: T = sum t_i + (K - 1) max t_i against measured steps of token-sliced training, for equal slices and for the best ones of
// the dynamic program on measured slice times; beside them plain micro-batches. C17a on cores, C17b with timed compute over an emulated link.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/statistics.h"
#include "experiments/claims/tensor_parallel/cells/slice_cells.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr int sequences = 2;  ///< a step; few, as for large models: slices are for pipelines that micro-batches cannot fill
/// Slices of 128 tokens and more: a stage that takes turns with others on its core pays about a millisecond per slice to get its weights back
/// into the caches, which t(s, c) of a stage alone does not have.
constexpr StageSizes sizes{};
const char* const fast_link = "emulated:10gbit,latency=20us";
constexpr double median_margin = 10, largest_margin = 20, slower_margin = 1.03;

/// What is measured at one K: equal slices 1, 2, 4, 8, 16, then the best, then all sequences in one micro-batch.
std::vector<SlicedArm> arms_of(const MeasuredStage& stage, int stages, const std::string& link) {
  std::vector<SlicedArm> arms;
  const std::string k = "K = " + std::to_string(stages) + ", ";
  for (int n = 1; n <= 16; n *= 2) arms.push_back({k + (n == 1 ? "whole sequences" : std::to_string(n) + " equal slices"), stages, sequences, 1, uniform_slices(sizes.seq, n)});
  const BatchPlan best = best_batches_and_slices(time_with_messages(stage, sizes, link), sequences, sizes.seq, stages, {sizes.granularity, 0}, 1);
  const std::vector<int> slices = best.micro_batches.front().slices;
  arms.push_back({k + "best slices " + format_slices(slices), stages, sequences, 1, slices});
  arms.push_back({k + "one micro-batch of " + std::to_string(sequences), stages, sequences, sequences, {sizes.seq}});
  return arms;
}

Outcome judge_steps(JudgeContext& context, const std::vector<int>& depths, const std::string& link) {
  const MeasuredStage stage = measured_stage(context, sizes, 5, sequences);
  const int repetitions = context.profile == Profile::full ? 5 : 1;
  Outcome o;
  Table table{"step time per slicing", {"stages", "slices", "predicted (ms)", "measured (ms)", "interquartile range (ms)", "error (%)", "speed-up over plain micro-batches (x)"}, {}};
  std::vector<double> errors;
  double slowest_best = 0;
  std::string untrusted, speedups;
  for (const int k : depths) {
    const std::vector<SlicedArm> arms = arms_of(stage, k, link);
    const std::vector<SlicedStep> steps = sliced_steps(context, sizes, arms, link, repetitions);
    const double plain = std::min(steps.front().ms, steps.back().ms);
    double best_equal = INFINITY, best = no_number;
    for (std::size_t a = 0; a < arms.size(); ++a) {
      const double predicted = predicted_ms(stage, sizes, arms[a], link), error = 100 * (predicted / steps[a].ms - 1);
      table.rows.push_back({arms[a].name, {static_cast<double>(k), static_cast<double>(arms[a].slices.size()), predicted, steps[a].ms, steps[a].spread_ms, error, plain / steps[a].ms}});
      if (untrusted.empty()) untrusted = steps[a].untrusted;
      if (a + 1 == arms.size()) continue;  // the plain one is for comparison; the rule is about slices
      errors.push_back(std::abs(error));
      if (a + 2 < arms.size()) best_equal = std::min(best_equal, steps[a].ms);
      if (a + 2 == arms.size()) best = steps[a].ms;
    }
    slowest_best = std::max(slowest_best, best / best_equal);
    o.measures.push_back({"best slices / best equal ones, K = " + std::to_string(k), best / best_equal, no_number, no_number, slower_margin, "x"});
    o.measures.push_back({"speed-up of the best slices over plain micro-batches, K = " + std::to_string(k), plain / best, no_number, no_number, no_number, "x"});
    char text[48];
    std::snprintf(text, sizeof text, "%s%.2fx at K = %d", speedups.empty() ? "" : ", ", plain / best, k);
    speedups += text;
  }
  const double middle = median(errors), largest = *std::max_element(errors.begin(), errors.end());
  o.measures.insert(o.measures.begin(), {{"|predicted - measured| / measured, median", middle, no_number, no_number, median_margin, "%"},
                                         {"the largest", largest, no_number, no_number, largest_margin, "%"}});
  o.tables = {std::move(table), table_of(stage)};
  char text[320];
  std::snprintf(text, sizeof text, "%zu steps: off by %.1f %% in the median and %.1f %% at most (10 and 20 allowed); the dynamic program's slices take at most %.3f of the best equal ones (1.03); against plain micro-batches %s",
                errors.size(), middle, largest, slowest_best, speedups.c_str());
  o.because = text;
  if (!untrusted.empty()) o.because += "; a cell was not trusted: " + untrusted;
  o.verdict = middle <= median_margin && largest <= largest_margin && slowest_best <= slower_margin ? Verdict::confirmed : Verdict::refuted;
  return o;
}

constexpr const char* rule = "CONFIRMED if |predicted - measured| / measured is at most 10 % in the median and 20 % at most over 1, 2, 4, 8, 16 equal slices and those of the dynamic program, "
                             "and the latter are measured no slower than 1.03 x the best equal ones; else REFUTED. t(s, c) is measured on one stage alone";

const bool on_cores = register_claim({.id = "tensor_parallel.C17a",
                                      .statement = "T = sum t_i + (K-1) max t_i predicts the step (K = 2 on two cores).",
                                      .provenance = "read: the authors' latency model",
                                      .rule = rule,
                                      .basis = Basis::training,
                                      .from = Profile::standard,
                                      .judge = [](JudgeContext& context) { return judge_steps(context, {2}, "shm"); }});
const bool on_link = register_claim({.id = "tensor_parallel.C17b",
                                     .statement = "T = sum t_i + (K-1) max t_i predicts the step (K = 4 and 8 with timed compute).",
                                     .provenance = "read: the authors' latency model",
                                     .rule = rule,
                                     .basis = Basis::emulated_link,
                                     .from = Profile::standard,
                                     .judge = [](JudgeContext& context) { return judge_steps(context, {4, 8}, fast_link); }});

}  // namespace
}  // namespace thinwire::claims
