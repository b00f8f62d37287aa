// optimus_cc.C14 on an emulated link: timed steps of the four stacks, and where each spends its time (Fig. 10: a communication at a time
// is left out, the difference is what it costs).
#include <cstdio>

#include "experiments/claims/optimus_cc/cells/timed_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

constexpr std::array categories = {"pp_forward", "pp_backward", "dp_gradient", "embedding"};
constexpr int stacks = static_cast<int>(stack_names.size());

Outcome judge(JudgeContext& context) {
  std::vector<TimedArm> whole, parts;
  for (int s = 0; s < stacks; ++s) {
    whole.push_back(stack_arm(s, stack_link));
    for (const char* category : categories) parts.push_back(stack_arm(s, stack_link, category));
  }
  const std::vector<TimedStep> steps = timed_steps(context, whole, repetitions_of(context) + 1), without = timed_steps(context, parts, 1);
  Outcome o;
  Table table{"stacks on the emulated link", {"step (ms)", "low", "high", "model (ms)", "pp_forward (ms)", "pp_backward (ms)", "dp_gradient (ms)", "embedding (ms)",
                                              "the rest (ms)"}, {}};
  std::vector<Interval> times;
  for (int s = 0; s < stacks; ++s) {
    const auto at = static_cast<std::size_t>(s);
    times.push_back(location_of(steps[at].step_ms));
    o.measures.push_back(measure_of(std::string("step of ") + stack_names[at], times.back(), no_number, "ms"));
    std::vector<double> row = {times.back().mean, times.back().low, times.back().high, steps[at].predicted_ms};
    double rest = times.back().mean;
    for (std::size_t c = 0; c < categories.size(); ++c) {
      const double exposed = shift_of(steps[at].step_ms, without[at * categories.size() + c].step_ms).mean;
      row.push_back(exposed);
      rest -= exposed;
    }
    row.push_back(rest);
    table.rows.push_back({stack_names[at], std::move(row)});
  }
  o.tables.push_back(std::move(table));
  bool disjoint = true, negative = false;
  double largest = 0;
  for (std::size_t s = 1; s < stacks; ++s) {
    const Interval gain = shift_of(steps[s - 1].step_ms, steps[s].step_ms);
    o.measures.push_back(measure_of(std::string("gained by ") + stack_names[s] + " over " + stack_names[s - 1], gain, 0, "ms"));
    disjoint = disjoint && times[s].high < times[s - 1].low;
    negative = negative || gain.high < 0;
    if (s + 1 < stacks) largest = std::max(largest, gain.mean);
  }
  const double selective = shift_of(steps[stacks - 2].step_ms, steps[stacks - 1].step_ms).mean;
  o.verdict = negative ? Verdict::refuted : disjoint && selective > largest ? Verdict::confirmed : Verdict::inconclusive;
  char text[256];
  std::snprintf(text, sizeof text, "%.1f, %.1f, %.1f, %.1f ms; the largest other step is %.1f ms, that of SC %.1f ms%s", times[0].mean, times[1].mean, times[2].mean, times[3].mean,
                largest, selective, negative ? "; a technique makes the step longer" : disjoint ? "" : "; intervals overlap");
  o.because = text;
  return o;
}

const bool registered = register_claim(
    {.id = "optimus_cc.C14b",
     .statement = "Each technique adds speed, selective stages the most, measured.",
     .provenance = "order recollected (weak); \"superior speed-up\" read (abstract page)",
     .rule = "P = 4, D = 2, M = 4, 400 Mbit/s: CONFIRMED if T(Base) > T(CB) > T(CB+FE) > T(CB+FE+SC) with disjoint intervals and SC's step the largest; REFUTED if a step is "
             "negative with its interval",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .judge = judge});

}  // namespace
}  // namespace thinwire::claims
