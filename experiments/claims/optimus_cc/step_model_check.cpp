// optimus_cc.M1 and M2, no claims of the paper but of ours: the step model predicts every timed arm that the claims use, and what each
// technique saves.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/optimus_cc/cells/timed_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

constexpr double step_bound = 0.1, saving_bound = 0.2, worth_judging = 0.05;

/// Arms, and pairs of them: what the second saves against the first.
struct Arms {
  std::vector<TimedArm> all;
  std::vector<std::pair<std::size_t, std::size_t>> savings;
  std::size_t add(TimedArm arm) {
    all.push_back(std::move(arm));
    return all.size() - 1;
  }
};

void add_stacks(Arms& arms, const std::string& link) {
  std::size_t before = arms.add(stack_arm(0, link));
  for (int stack = 1; stack < static_cast<int>(stack_names.size()); ++stack) {
    const std::size_t next = arms.add(stack_arm(stack, link));
    arms.savings.emplace_back(before, next);
    before = next;
  }
}

Outcome judge(JudgeContext& context, const Arms& arms, int repetitions) {
  Outcome o;
  const std::vector<TimedStep> steps = timed_steps(context, arms.all, repetitions);
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].step_ms.empty() || std::isnan(steps[i].predicted_ms)) {
      o.verdict = Verdict::not_decidable;
      o.because = arms.all[i].link + " was not measured: " + (steps[i].untrusted.empty() ? "no prediction in the record" : steps[i].untrusted);
      return o;
    }
  Table table{"steps measured and predicted", {"measured (ms)", "low", "high", "predicted (ms)", "distance"}, {}};
  Table savings{"savings measured and predicted", {"measured (ms)", "low", "high", "predicted (ms)", "of the step", "distance", "judged"}, {}};
  double worst = 0, worst_saving = 0;
  std::string farthest, farthest_saving;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Interval measured = location_of(steps[i].step_ms);
    const double distance = steps[i].predicted_ms / measured.mean - 1;
    const std::string name = arms.all[i].name + " on " + arms.all[i].link;
    table.rows.push_back({name, {measured.mean, measured.low, measured.high, steps[i].predicted_ms, distance}});
    if (std::abs(distance) >= std::abs(worst)) worst = distance, farthest = name;
  }
  int judged = 0;
  for (const auto& [from, to] : arms.savings) {
    const Interval measured = shift_of(steps[from].step_ms, steps[to].step_ms);
    const double predicted = steps[from].predicted_ms - steps[to].predicted_ms, share = predicted / steps[from].predicted_ms, distance = measured.mean / predicted - 1;
    const bool counts = share >= worth_judging;
    const std::string name = arms.all[to].name + " after " + arms.all[from].name;
    savings.rows.push_back({name, {measured.mean, measured.low, measured.high, predicted, share, distance, counts ? 1.0 : 0.0}});
    if (!counts) continue;
    ++judged;
    if (std::abs(distance) >= std::abs(worst_saving)) worst_saving = distance, farthest_saving = name;
  }
  o.measures = {{"largest distance of a step from the model", worst, no_number, no_number, step_bound, "of the step"},
                {"largest distance of a saving from the model", judged > 0 ? worst_saving : no_number, no_number, no_number, saving_bound, "of the saving"},
                {"savings judged (predicted at 5 % of the step or more)", static_cast<double>(judged), no_number, no_number, no_number, ""}};
  o.tables = {std::move(table), std::move(savings)};
  o.verdict = std::abs(worst) <= step_bound && std::abs(worst_saving) <= saving_bound ? Verdict::pass : Verdict::fail;
  char text[300];
  std::snprintf(text, sizeof text, "%zu arms, farthest %+.1f %% (%s); %d savings judged, farthest %+.0f %%%s%s%s", steps.size(), 100 * worst, farthest.c_str(), judged,
                100 * worst_saving, farthest_saving.empty() ? "" : " (", farthest_saving.c_str(), farthest_saving.empty() ? "" : ")");
  o.because = text;
  return o;
}

Outcome judge_emulated(JudgeContext& context) {
  Arms arms;
  for (const bool blocking : {false, true})
    for (const double share : message_shares) {
      const std::size_t none = arms.add(exposure_arm(share, Backward::none, blocking));
      for (const Backward what : {Backward::epilogue, Backward::all}) arms.savings.emplace_back(none, arms.add(exposure_arm(share, what, blocking)));
    }
  for (const double backward : selective_backward_us) {
    const std::size_t none = arms.add(selective_arm(backward, 0));
    for (int k = 1; k <= 4; ++k) arms.savings.emplace_back(none, arms.add(selective_arm(backward, k)));
  }
  add_stacks(arms, stack_link);
  return judge(context, arms, repetitions_of(context));
}

Outcome judge_namespaces(JudgeContext& context) {
  Arms arms;
  add_stacks(arms, "netns:1gbit");
  return judge(context, arms, repetitions_of(context));
}

constexpr const char* rule =
    "P = 4: PASS if the model is within 10 % of the step of every arm and within 20 % of every saving that it predicts at 5 % of the step or more";
const bool emulated = register_claim({.id = "optimus_cc.M1",
                                      .statement = "The event model predicts the timed steps of all arms, and what each technique saves.",
                                      .provenance = "derived: a check of ours, no claim of the paper",
                                      .rule = rule,
                                      .basis = Basis::emulated_link,
                                      .from = Profile::standard,
                                      .judge = judge_emulated});
const bool namespaces = register_claim({.id = "optimus_cc.M2",
                                        .statement = "The event model predicts the timed steps of the stacks between namespaces, and what each technique saves.",
                                        .provenance = "derived: a check of ours, no claim of the paper",
                                        .rule = rule,
                                        .basis = Basis::namespaces,
                                        .from = Profile::standard,
                                        .judge = judge_namespaces});

}  // namespace
}  // namespace thinwire::claims
