// tensor_parallel.C19: what token slices gain by the length of the sequences, at equal tokens per step: timed compute, eight stages.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/arms.h"
#include "experiments/claims/tensor_parallel/cells/slice_cells.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr int stages = 8, tokens_per_step = 4096;
constexpr StageSizes sizes{1, 256, 8, 2048, 64};
const char* const fast_link = "emulated:10gbit,latency=20us";

const std::vector<int> all_lengths = {256, 512, 1024, 2048};
constexpr int rounds = 3;  ///< of the slices measured on one stage

SlicedArm plain_of(int length) { return {"micro-batches of one sequence", stages, tokens_per_step / length, 1, {length}}; }

Rule rule() {
  CellRequest plain = sliced_request(sizes, plain_of(all_lengths.front()), fast_link, 0);
  for (const char* differs : {"plan", "seed", "token-slices"}) plain.parameters.erase(differs);
  const std::string lengths = list_of({all_lengths.begin(), all_lengths.end()});
  Rule rule = with_arms({.settings = {{"seq", lengths}, {"max-seq", lengths}, {"global-batch", std::to_string(tokens_per_step) + " tokens"}},
                         .quantities = {{"growth", "speed-up of the best slices over micro-batches of one sequence, at equal tokens per step, over that at half the length: the least of all lengths; slices by the dynamic program on "
                                                   "times of one stage alone (" + std::to_string(rounds) + " rounds)"}},
                         .constants = {{"even", 1, "x: no growth"}, {"worth", 0.05, "of the speed-up: a smaller growth is not worth naming"}},
                         .clauses = {{Verdict::confirmed, "growth >= even + worth"}, {Verdict::direction_only, "growth > even"}},
                         .otherwise = Verdict::not_reproduced,
                         .smallest_effect = "worth"},
                        {{"micro-batches of one sequence", plain}});
  rule.arms.push_back({"the same in the best slices, granularity " + std::to_string(sizes.granularity), {}});
  return rule;
}

Finding measure(JudgeContext& context) {
  // Slices of shorter sequences are those of the longest one with less context: one measurement serves all.
  const MeasuredStage stage = measured_stage(context, sizes, rounds);
  const BatchSliceTime time = time_with_messages(stage, sizes, fast_link);
  std::vector<SlicedArm> arms;
  const std::vector<int>& lengths = all_lengths;
  for (const int length : all_lengths) {
    const int sequences = tokens_per_step / length;
    const std::string l = "L = " + std::to_string(length) + ", ";
    arms.push_back(plain_of(length));
    arms.back().name = l + arms.back().name;
    const BatchPlan best = best_batches_and_slices(time, sequences, length, stages, {sizes.granularity, 0}, 1);
    arms.push_back({l + "best slices", stages, sequences, 1, best.micro_batches.front().slices});
  }
  const std::vector<SlicedStep> steps = sliced_steps(context, sizes, arms, fast_link, context.profile == Profile::full ? 5 : 1);
  Finding found;
  Table table{"length sweep", {"tokens of a sequence", "sequences per step", "slices", "plain (ms)", "sliced (ms)", "speed-up (x)", "predicted plain (ms)", "predicted sliced (ms)", "predicted speed-up (x)"}, {}};
  double growth = INFINITY, before = no_number;
  std::string list;
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    const SlicedArm &plain = arms[2 * n], &sliced = arms[2 * n + 1];
    const double predicted_plain = predicted_ms(stage, sizes, plain, fast_link), predicted_sliced = predicted_ms(stage, sizes, sliced, fast_link);
    const double gain = steps[2 * n].ms / steps[2 * n + 1].ms;
    table.rows.push_back({"L = " + std::to_string(lengths[n]) + ": " + format_slices(sliced.slices),
                          {static_cast<double>(lengths[n]), static_cast<double>(plain.sequences), static_cast<double>(sliced.slices.size()), steps[2 * n].ms, steps[2 * n + 1].ms, gain,
                           predicted_plain, predicted_sliced, predicted_plain / predicted_sliced}});
    found.measures.push_back({"speed-up at L = " + std::to_string(lengths[n]), gain, no_number, no_number, no_number, "x"});
    if (n > 0) growth = std::fmin(growth, gain / before);
    before = gain;
    char text[32];
    std::snprintf(text, sizeof text, "%s%.2f", list.empty() ? "" : ", ", gain);
    list += text;
  }
  found.tables = {std::move(table), table_of(stage)};
  found.measures.push_back({"speed-up over that at half the length, the least", growth, no_number, no_number, 1, "x", "growth"});
  found.note = "speed-ups over micro-batches of one sequence, at 256, 512, 1024 and 2048 tokens: " + list;
  for (const SlicedStep& step : steps)
    if (!step.untrusted.empty()) {
      found.note += "; a cell was not trusted: " + step.untrusted;
      break;
    }
  return found;
}

const bool registered = register_claim({.id = "tensor_parallel.C19",
                                        .statement = "TeraPipe gains more for longer sequences.",
                                        .provenance = "recollected: 1.40x at 2048 tokens to 7.83x at 8192 (13B model); the step times at 2048 are read",
                                        .basis = Basis::emulated_link,
                                        .from = Profile::standard,
                                        .rule = rule(),
                                        .measure = measure,
                                        .figure = "terapipe_lengths"});

}  // namespace
}  // namespace thinwire::claims
