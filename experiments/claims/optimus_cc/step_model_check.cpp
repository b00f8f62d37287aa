// optimus_cc.M1 and M2, no claims of the paper but of ours: the step model predicts every timed arm that the claims use, and what each
// technique saves.
#include <cmath>

#include "experiments/claims/optimus_cc/cells/timed_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

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

Finding measure(JudgeContext& context, const Rule& rule, const Arms& arms) {
  Finding o;
  const double worth = rule.constant("worth");
  const std::vector<TimedStep> steps = timed_steps(context, arms.all, context.seeds());
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (std::isnan(steps[i].predicted_ms)) {
      o.instead = Verdict::skipped;
      o.note = arms.all[i].link + " was not measured: no prediction in the record";
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
    const bool counts = share >= worth;
    const std::string name = arms.all[to].name + " after " + arms.all[from].name;
    savings.rows.push_back({name, {measured.mean, measured.low, measured.high, predicted, share, distance, counts ? 1.0 : 0.0}});
    if (!counts) continue;
    ++judged;
    if (std::abs(distance) >= std::abs(worst_saving)) worst_saving = distance, farthest_saving = name;
  }
  o.measures = {{"largest distance of a step from the model", worst, no_number, no_number, rule.constant("step_bound"), "of the step", "step"},
                {"largest distance of a saving from the model", judged > 0 ? worst_saving : no_number, no_number, no_number, rule.constant("saving_bound"), "of the saving", "saving"},
                {"savings judged (predicted at 5 % of the step or more)", static_cast<double>(judged), no_number, no_number, no_number, ""}};
  o.tables = {std::move(table), std::move(savings)};
  if (judged == 0) {
    o.instead = Verdict::not_decidable;
    o.note = "a saving that the model predicts at 5 % of the step or more is missing";
    return o;
  }
  o.note = std::to_string(steps.size()) + " arms, the farthest " + farthest + "; " + std::to_string(judged) + " savings judged, the farthest " + farthest_saving;
  return o;
}

void add_exposure(Arms& arms, bool blocking, const std::string& kind) {
  for (const double share : message_shares) {
    const std::size_t none = arms.add(exposure_arm(share, Backward::none, blocking, kind));
    for (const Backward what : {Backward::epilogue, Backward::all}) arms.savings.emplace_back(none, arms.add(exposure_arm(share, what, blocking, kind)));
  }
}

void add_selective(Arms& arms, const std::string& kind) {
  for (const double backward : selective_backward_us) {
    const std::size_t none = arms.add(selective_arm(backward, 0, kind));
    for (int k = 1; k <= 4; ++k) arms.savings.emplace_back(none, arms.add(selective_arm(backward, k, kind)));
  }
}

Arms emulated_arms() {
  Arms arms;
  for (const bool blocking : {false, true}) add_exposure(arms, blocking, "emulated");
  add_selective(arms, "emulated");
  add_stacks(arms, stack_link);
  return arms;
}

/// Those of M1 whose messages can really pass between namespaces.
Arms namespace_arms() {
  Arms arms;
  add_exposure(arms, false, "netns");
  add_selective(arms, "netns");
  add_stacks(arms, physical_stack_link);
  return arms;
}

Rule rule_of(const Arms& arms) {
  Rule rule;
  add_timed_arms(rule, arms.all);
  rule.quantities = {{"step", "modelled over measured step - 1, of the arm where that is farthest from 0; measured: location of all repetitions' steps by Wilcoxon's signed ranks"},
                     {"saving", "measured over modelled saving of an arm against the one it follows - 1, farthest from 0 of those that the model predicts at 0.05 of the step or more; NOT "
                                "DECIDABLE where there is none"}};
  rule.constants = {{"step_bound", 0.1, "of the step: as far as the model may be off"}, {"saving_bound", 0.2, "of the saving: as far as the model may be off"},
                    {"worth", 0.05, "of the step: the smallest saving worth judging"}};
  rule.clauses = {{Verdict::confirmed, "abs(step) <= step_bound && abs(saving) <= saving_bound"}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "worth";
  return rule;
}

Claim claim(const char* id, const char* statement, Basis basis, const Arms& arms, const std::vector<PastChange>& past = {}) {
  const Rule rule = rule_of(arms);
  return {.id = id,
          .statement = statement,
          .provenance = "derived: a check of ours, no claim of the paper",
          .basis = basis,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {2, 4},
          .measure = [rule, arms](JudgeContext& context) { return measure(context, rule, arms); },
          .past = past,
          .figure = "optimus_cc_model"};
}

const bool emulated = register_claim(
    claim("optimus_cc.M1", "The event model predicts the timed steps of all arms, and what each technique saves.", Basis::emulated_link, emulated_arms()));
const bool namespaces = register_claim(claim("optimus_cc.M2", "The event model predicts the timed steps between namespaces, and what each technique saves.", Basis::namespaces, namespace_arms(),
                                             {{"2026-11-23", "the arms of C5 and C8 between namespaces belong to it, beside the stacks", "a physical check of all that M1 checks on replayed links"}}));

}  // namespace
}  // namespace thinwire::claims
