// optimus_cc.C13: naive compression harms quality, the full stack does not.
#include <algorithm>

#include "experiments/claims/optimus_cc/cells/arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

/// Arms: dense, the full stack, then naive ones at the profile's ranks, half of them, a quarter.
Rule make_rule(const Ground& ground) {
  std::vector<Arm> arms = {dense(), full_stack()};
  for (int divisor = 1; divisor <= 4; divisor *= 2) arms.push_back(naive(std::max(1, boundary_rank / divisor), gradient_rank / divisor));
  Rule rule = training_rule(ground, arms);
  rule.quantities.push_back({"full", "final validation loss of CB+FE+SC less that of the arm dense, nats per token, paired over seeds, 95 % interval by Student's t"});
  rule.quantities.push_back({"harm", "the same of the naive arms, tried in their order until the lower bound is above margin; of several the largest, value and bounds each"});
  rule.constants.insert(rule.constants.end(), {quality_margin(), resolution()});
  rule.scatter = {{"full", "margin", "resolution"}, {"harm", "margin", "resolution"}};
  rule.clauses.push_back({Verdict::confirmed, "harm.low > margin && full.high < margin"});
  rule.clauses.push_back({Verdict::not_reproduced, "full.low > margin || harm.high < margin"});
  rule.smallest_effect = "margin";
  return rule;
}

Finding measure(JudgeContext& context, const Ground& ground, const Rule& rule) {
  Finding f;
  std::vector<Arm> arms = {rule.arms[0], rule.arms[1]};
  const double margin = rule.constant("margin");
  std::vector<std::vector<double>> of;
  Interval most;
  for (std::size_t i = 2; i < rule.arms.size() && !(most.low > margin); ++i) {
    arms.push_back(rule.arms[i]);
    of = losses(context, ground, arms, context.seeds());
    const Interval harm = paired_interval(of[0], of.back());
    f.measures.push_back(measure_of("L(" + arms.back().name + ") - L(dense)", harm, margin, "nats per token"));
    most.mean = std::fmax(most.mean, harm.mean), most.low = std::fmax(most.low, harm.low), most.high = std::fmax(most.high, harm.high);
  }
  f.measures.push_back(measure_of("largest harm of a naive arm", most, margin, "nats per token", "harm"));
  f.measures.push_back(measure_of("L(CB+FE+SC) - L(dense)", paired_interval(of[0], of[1]), margin, "nats per token", "full"));
  for (Measure& control : control_measures(context, ground, arms, of)) f.measures.push_back(std::move(control));
  if (context.profile == Profile::full) {  // not part of the verdict: the other treatment of the residual
    arms.push_back(full_stack(Lep::drop));
    const Interval dropped = paired_interval(of[0], losses(context, ground, {arms.back()}, context.seeds())[0]);
    f.measures.push_back(measure_of("L(" + arms.back().name + ") - L(dense)", dropped, no_number, "nats per token"));
  }
  f.tables = tables_of(context, ground, arms, context.seeds());
  f.note = ground.name();
  return f;
}

Claim claim() {
  const Ground ground = two_replicas();
  const Rule rule = make_rule(ground);
  return {.id = "optimus_cc.C13",
          .statement = "Naive compression harms quality, the full stack CB+FE+SC does not.",
          .provenance = "read: the paper's abstract page",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = ground.seeds(),
          .measure = [rule, ground](JudgeContext& context) { return measure(context, ground, rule); },
          .past = changes_of_training(),
          .figure = "optimus_cc_stacks"};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
