// optimus_cc.C1: low-rank compression of backward messages with lazy error propagation keeps the loss.
#include "experiments/claims/optimus_cc/cells/arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

Rule rule_of(const Arm& arm) {
  Rule rule = training_rule({dense(), arm});
  rule.quantities.push_back({"difference", "final validation loss of the arm less that of the arm dense, nats per token, paired over seeds, 95 % interval by Student's t"});
  rule.constants.insert(rule.constants.end(), {quality_margin(), resolution()});
  rule.scatter = {{"difference", "margin", "resolution"}};
  rule.clauses.push_back({Verdict::confirmed, "difference.high < margin"});
  rule.clauses.push_back({Verdict::not_reproduced, "difference.low > margin"});
  rule.smallest_effect = "margin";
  return rule;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  const std::vector<std::vector<double>> of = losses(context, rule.arms, context.seeds());
  Finding f;
  f.measures = {measure_of("L(" + at_steps(rule.arms[1], context.steps()).name + ") - L(dense)", paired_interval(of[0], of[1]), rule.constant("margin"), "nats per token", "difference")};
  for (Measure& control : control_measures(rule.arms, of)) f.measures.push_back(std::move(control));
  f.tables = tables_of(context, rule.arms, context.seeds());
  f.note = std::to_string(context.steps()) + " steps";
  return f;
}

Claim claim(const char* id, const char* statement, const char* provenance, const Arm& arm) {
  const Rule rule = rule_of(arm);
  return {.id = id,
          .statement = statement,
          .provenance = provenance,
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {5, 10},
          .measure = [rule](JudgeContext& context) { return measure(context, rule); },
          .past = changes_of_scatter(),
          .figure = "optimus_cc_curves"};
}

const bool epilogue =
    register_claim(claim("optimus_cc.C1a", "Low-rank compression of the epilogue's backward messages with lazy error propagation keeps quality (the paper's setting).",
                         "read: the paper's abstract page", backward(boundary_rank, Lep::carry, true)));
const bool all = register_claim(
    claim("optimus_cc.C1b", "Low-rank compression of all backward messages with lazy error propagation keeps quality (a stress that the paper does not claim).",
          "derived from the paper's abstract page", backward(boundary_rank, Lep::carry, false)));
const bool dropped = register_claim(claim("optimus_cc.C1c", "C1a with the leftover of a mini-batch dropped, which section 2.2 of the page leaves open.", "derived",
                                          backward(boundary_rank, Lep::drop, true)));
const bool warmed =
    register_claim(claim("optimus_cc.C1d", "C1a after a tenth of the steps without compression.", "derived", warmed_up(backward(boundary_rank, Lep::carry, true))));
const bool unprotected = register_claim(claim("optimus_cc.C1e", "C1a without lazy error propagation.", "derived", backward(boundary_rank, Lep::off, true)));

}  // namespace
}  // namespace thinwire::claims
