// optimus_cc.C2: without lazy error propagation the same compression costs more.
#include "experiments/claims/optimus_cc/cells/arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

/// Ranks in the order in which a pilot seed tries them.
std::vector<int> ranks() {
  std::vector<int> all;
  for (int rank = boundary_rank; rank >= 1; rank /= 2) all.push_back(rank);
  return all;
}

/// Arms: dense, then with and without LEP for each rank.
Rule rule_of(bool epilogue_only) {
  std::vector<Arm> arms = {dense()};
  for (const int rank : ranks())
    for (const Lep lep : {Lep::carry, Lep::off}) arms.push_back(backward(rank, lep, epilogue_only));
  Rule rule = training_rule(arms);
  rule.quantities.push_back({"pilot", "what the arm without LEP loses against dense in a pilot seed that no comparison uses, nats per token: ranks are tried in the order of the arms until it is "
                                      "`noticed`"});
  rule.quantities.push_back({"gain", "final validation loss without LEP less that with it, at the pilot's rank, nats per token, paired over seeds, 95 % interval by Student's t"});
  rule.constants.insert(rule.constants.end(), {smallest_gain(), {"noticed", 2 * smallest_gain().value, "nats per token: a loss of which LEP can win back what is worth naming"}, resolution()});
  rule.scatter = {{"gain", "smallest", "resolution"}};
  rule.clauses.push_back({Verdict::not_decidable, "pilot < noticed"});
  rule.clauses.push_back({Verdict::confirmed, "gain.low > 0 && gain >= smallest"});
  rule.clauses.push_back({Verdict::not_reproduced, "gain.high < smallest"});
  rule.smallest_effect = "smallest";
  return rule;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  Finding f;
  const double baseline = pilot_loss(context, rule.arms[0]), noticed = rule.constant("noticed");
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < ranks().size() && chosen == 0; ++i) {
    const double loss = pilot_loss(context, rule.arms[2 + 2 * i]) - baseline;
    f.measures.push_back({"pilot: what rank " + std::to_string(ranks()[i]) + " without LEP loses", loss, no_number, no_number, noticed, "nats per token"});
    if (loss >= noticed) chosen = 1 + 2 * i;
  }
  f.measures.back().symbol = "pilot";
  if (chosen == 0) {
    f.instead = Verdict::not_decidable;
    f.note = "an arm that loses something is missing: at no rank down to 1 does the one without LEP lose 0.01 nat in the pilot, so there is nothing that LEP could win back";
    return f;
  }
  const std::vector<Arm> arms = {rule.arms[0], rule.arms[chosen], rule.arms[chosen + 1]};
  const std::vector<std::vector<double>> of = losses(context, arms, context.seeds());
  f.measures.push_back(measure_of("G = L(without LEP) - L(with LEP)", paired_interval(of[1], of[2]), rule.constant("smallest"), "nats per token", "gain"));
  f.measures.push_back(measure_of("L(without LEP) - L(dense)", paired_interval(of[0], of[2]), no_number, "nats per token"));
  for (Measure& control : control_measures(arms, of)) f.measures.push_back(std::move(control));
  f.tables = tables_of(context, arms, context.seeds());
  f.note = "compared: " + arms[1].name + " and " + arms[2].name + ", " + std::to_string(context.steps()) + " steps";
  return f;
}

Claim claim(const char* id, const char* statement, bool epilogue_only) {
  const Rule rule = rule_of(epilogue_only);
  std::vector<PastChange> past = changes_of_scatter();
  past.push_back({"2026-11-22", "NOT DECIDABLE, no longer INCONCLUSIVE, where no rank hurts the arm without LEP in the pilot", "INCONCLUSIVE is said after the largest number of seeds alone"});
  return {.id = id,
          .statement = statement,
          .provenance = "recollected; the arm without LEP exists [read: ASPLOS23/]",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {5, 10},
          .measure = [rule](JudgeContext& context) { return measure(context, rule); },
          .past = past,
          .figure = "optimus_cc_curves"};
}

const bool all = register_claim(claim("optimus_cc.C2a", "Without lazy error propagation quality is worse, all backward messages compressed.", false));
const bool epilogue = register_claim(claim("optimus_cc.C2b", "Without lazy error propagation quality is worse, the epilogue's backward messages compressed.", true));

}  // namespace
}  // namespace thinwire::claims
