// optimus_cc.C2: without lazy error propagation the same compression costs more.
#include "experiments/claims/optimus_cc/cells/arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

/// Arms: dense, then with and without LEP.
Rule rule_of(const Ground& ground, int rank, bool epilogue_only) {
  Rule rule = training_rule(ground, {dense(), backward(rank, Lep::carry, epilogue_only), backward(rank, Lep::off, epilogue_only)});
  rule.quantities.push_back({"harm", "final validation loss of the arm without LEP less that of the arm dense, nats per token, paired over seeds, 95 % interval by Student's t"});
  rule.quantities.push_back({"gain", "final validation loss without LEP less that with it, nats per token, paired over seeds, 95 % interval by Student's t"});
  rule.constants.insert(rule.constants.end(), {smallest_gain(), {"noticed", 2 * smallest_gain().value, "nats per token: a loss of which LEP can win back what is worth naming"}, resolution()});
  rule.scatter = {{"gain", "smallest", "resolution"}};
  rule.clauses.push_back({Verdict::not_decidable, "harm.high < noticed"});
  rule.clauses.push_back({Verdict::confirmed, "gain.low > 0 && gain >= smallest"});
  rule.clauses.push_back({Verdict::not_reproduced, "gain.high < smallest"});
  rule.smallest_effect = "smallest";
  return rule;
}

Finding measure(JudgeContext& context, const Ground& ground, const Rule& rule) {
  Finding f;
  const std::vector<std::vector<double>> of = losses(context, ground, rule.arms, context.seeds());
  f.measures.push_back(measure_of("G = L(without LEP) - L(with LEP)", paired_interval(of[1], of[2]), rule.constant("smallest"), "nats per token", "gain"));
  f.measures.push_back(measure_of("L(without LEP) - L(dense)", paired_interval(of[0], of[2]), rule.constant("noticed"), "nats per token", "harm"));
  for (Measure& control : control_measures(context, ground, rule.arms, of)) f.measures.push_back(std::move(control));
  f.tables = tables_of(context, ground, rule.arms, context.seeds());
  f.note = ground.name();
  return f;
}

bool judged(const std::string& part, const Ground& ground, int rank, bool epilogue_only) {
  const Rule rule = rule_of(ground, rank, epilogue_only);
  std::vector<PastChange> past = changes_of_training();
  past.push_back({"2026-11-22", "NOT DECIDABLE, no longer INCONCLUSIVE, where compression without LEP does no harm that LEP could mend", "INCONCLUSIVE is said after the largest number of seeds alone"});
  past.push_back({"2026-11-23", "that harm is measured on the compared seeds and rank, no longer looked for in a pilot that halves the rank", "one setting per claim, each stated; the pilot's cells were nobody's evidence"});
  return register_claim({.id = "optimus_cc.C2" + part,
                         .statement = std::string("Without lazy error propagation quality is worse: ") + (epilogue_only ? "the epilogue's backward messages" : "all backward messages") + " at rank " +
                                      std::to_string(rank) + ", " + ground.name() + ".",
                         .provenance = "recollected; the arm without LEP exists [read: ASPLOS23/]",
                         .basis = Basis::training,
                         .from = Profile::standard,
                         .rule = rule,
                         .seeds = ground.seeds(),
                         .measure = [rule, ground](JudgeContext& context) { return measure(context, ground, rule); },
                         .past = past,
                         .figure = "optimus_cc_trend"});
}

const bool all_messages = judged("a", from_scratch(8), 2, false);
const bool epilogue = judged("b", from_scratch(8), 2, true);
const bool epilogue_8 = judged("c", from_scratch(8), 8, true);
const bool later = judged("d", in_training(8), 2, true);
const bool later_8 = judged("e", in_training(8), 8, true);
const bool paper = judged("f", in_training(16), 2, true);

}  // namespace
}  // namespace thinwire::claims
