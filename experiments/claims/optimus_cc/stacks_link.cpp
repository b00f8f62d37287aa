// optimus_cc.C14 on an emulated link and between namespaces: timed steps of the four stacks, and where each spends its time (Fig. 10: a communication at a time
// is left out, the difference is what it costs).
#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "experiments/claims/optimus_cc/cells/timed_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

constexpr std::array categories = {"pp_forward", "pp_backward", "dp_gradient", "embedding"};
constexpr int stacks = static_cast<int>(stack_names.size());
constexpr std::array step_symbols = {"step_base", "step_cb", "step_fe", "step_sc"}, gain_symbols = {"", "gain_cb", "gain_fe", "gain_sc"};

Finding measure(JudgeContext& context, const Rule& rule, const std::string& link, Basis basis) {
  std::vector<TimedArm> whole, parts;
  for (int s = 0; s < stacks; ++s) {
    whole.push_back(stack_arm(s, link));
    for (const char* category : categories) parts.push_back(stack_arm(s, link, category));
  }
  const std::vector<TimedStep> steps = timed_steps(context, whole, context.seeds()), without = timed_steps(context, parts, 1);
  Finding o;
  Table table{basis == Basis::emulated_link ? "stacks on the emulated link" : "stacks between namespaces", {"step (ms)", "low", "high", "model (ms)", "pp_forward (ms)", "pp_backward (ms)", "dp_gradient (ms)", "embedding (ms)",
                                              "the rest (ms)"}, {}};
  std::vector<Interval> times;
  for (int s = 0; s < stacks; ++s) {
    const auto at = static_cast<std::size_t>(s);
    times.push_back(location_of(steps[at].step_ms));
    o.measures.push_back(measure_of(std::string("step of ") + stack_names[at], times.back(), no_number, "ms", step_symbols[at]));
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
  for (std::size_t s = 1; s < stacks; ++s) {
    Interval gain = shift_of(steps[s - 1].step_ms, steps[s].step_ms);
    const std::string name = std::string("gained by ") + stack_names[s] + " over " + stack_names[s - 1];
    o.measures.push_back(measure_of(name, gain, 0, "ms"));
    for (double* v : {&gain.mean, &gain.low, &gain.high}) *v /= times[s - 1].mean;
    o.measures.push_back(measure_of("the same, " + name, gain, rule.constant("smallest"), "of the step before", gain_symbols[s]));
  }
  return o;
}

Rule make_rule(const std::string& link) {
  Rule rule;
  std::vector<TimedArm> arms;
  for (int s = 0; s < stacks; ++s) arms.push_back(stack_arm(s, link));
  add_timed_arms(rule, arms);
  rule.settings["omit"] = "for the table alone, each of";
  for (const char* category : categories) rule.settings["omit"] += std::string(" ") + category;
  std::vector<std::string> gains;
  for (std::size_t s = 0; s < stacks; ++s) {
    rule.quantities.push_back({step_symbols[s], std::string("step of ") + stack_names[s] + ", ms, steps of all repetitions, 95 % interval by Wilcoxon's signed ranks"});
    if (s == 0) continue;
    gains.push_back(gain_symbols[s]);
    rule.quantities.push_back({gains.back(), std::string("what ") + stack_names[s] + " saves against " + stack_names[s - 1] + ", of the step of the latter, 95 % interval by Mann and Whitney's ranks"});
    rule.scatter.push_back({gains.back(), "none", "smallest"});
  }
  rule.constants = {{"none", 0, "no gain"}, {"smallest", 0.01, "of the step before: the smallest gain worth naming"}};
  const std::string each_faster = "step_cb.high < step_base.low && step_fe.high < step_cb.low && step_sc.high < step_fe.low && gain_sc * step_fe > max(gain_cb * step_base, gain_fe * step_cb)";
  rule.clauses = {{Verdict::not_reproduced, of_each("min", gains, ".high") + " < none"},
                  {Verdict::confirmed, of_each("min", gains) + " >= smallest && " + each_faster},
                  {Verdict::direction_only, each_faster}};
  rule.smallest_effect = "smallest";
  return rule;
}

bool judged(const char* id, const char* statement, const std::string& link, Basis basis) {
  const Rule rule = make_rule(link);
  return register_claim({.id = id,
                         .statement = statement,
                         .provenance = "order recollected (weak); \"superior speed-up\" read (abstract page)",
                         .basis = basis,
                         .from = Profile::standard,
                         .rule = rule,
                         .seeds = {3, 5},
                         .measure = [rule, link, basis](JudgeContext& context) { return measure(context, rule, link, basis); },
                         .past = {one_control(),
                                  {"2026-11-22", "each technique must save 1 % of the step before to be CONFIRMED; less is DIRECTION ONLY", "every claim names the smallest effect worth naming"}},
                         .figure = "optimus_cc_breakdown"});
}

const bool emulated = judged("optimus_cc.C14b", "Each technique adds speed, selective stages the most, measured.", stack_link, Basis::emulated_link);
const bool namespaces = judged("optimus_cc.C14c", "Each technique adds speed, selective stages the most, measured between namespaces.", physical_stack_link, Basis::namespaces);

}  // namespace
}  // namespace thinwire::claims
