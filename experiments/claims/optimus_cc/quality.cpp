// optimus_cc.C1: low-rank compression of backward messages with lazy error propagation keeps the loss.
#include "experiments/claims/optimus_cc/cells/arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

Rule rule_of(const Ground& ground, const Arm& arm) {
  Rule rule = training_rule(ground, {dense(), arm});
  rule.quantities.push_back({"difference", "final validation loss of the arm less that of the arm dense, nats per token, paired over seeds, 95 % interval by Student's t"});
  rule.constants.insert(rule.constants.end(), {quality_margin(), resolution()});
  rule.scatter = {{"difference", "margin", "resolution"}};
  rule.clauses.push_back({Verdict::confirmed, "difference.high < margin"});
  rule.clauses.push_back({Verdict::not_reproduced, "difference.low > margin"});
  rule.smallest_effect = "margin";
  return rule;
}

Finding measure(JudgeContext& context, const Ground& ground, const Rule& rule) {
  const std::vector<std::vector<double>> of = losses(context, ground, rule.arms, context.seeds());
  Finding f;
  f.measures = {measure_of("L(" + rule.arms[1].name + ") - L(dense)", paired_interval(of[0], of[1]), rule.constant("margin"), "nats per token", "difference")};
  for (Measure& control : control_measures(context, ground, rule.arms, of)) f.measures.push_back(std::move(control));
  f.tables = tables_of(context, ground, rule.arms, context.seeds());
  f.note = ground.name();
  return f;
}

bool judged(const std::string& part, const Ground& ground, const Arm& arm, const std::string& statement, const std::string& provenance = "derived", Profile from = Profile::standard) {
  const Rule rule = rule_of(ground, arm);
  return register_claim({.id = "optimus_cc.C1" + part,
                         .statement = statement,
                         .provenance = provenance,
                         .basis = Basis::training,
                         .from = from,
                         .rule = rule,
                         .seeds = ground.seeds(),
                         .measure = [rule, ground](JudgeContext& context) { return measure(context, ground, rule); },
                         .past = changes_of_training(),
                         .figure = "optimus_cc_trend"});
}

Arm with(int rank) { return backward(rank, Lep::carry, true); }
Arm without(int rank) { return backward(rank, Lep::off, true); }

Ground at_rate(double factor) {
  Ground ground = from_scratch(8);
  ground.rate = factor * learning_rate;
  return ground;
}
Ground of_width(int width) {
  Ground ground = in_training(8);
  ground.width = width;
  return ground;
}
Ground four_times_as_long() {
  Ground ground = in_training(8);
  ground.lengthened = 4;
  return ground;
}

const std::string keeps = "Low-rank compression of the epilogue's backward messages with lazy error propagation keeps quality";
const std::string page = "read: the paper's abstract page";

const bool paper = judged("a", in_training(16), with(2), keeps + ": rank 2, M = 16 as in the paper, begun in training.", page);
const bool all_lep = judged("b", from_scratch(8), backward(2, Lep::carry, false),
                            "Low-rank compression of all backward messages with lazy error propagation keeps quality: rank 2, M = 8, from scratch (a stress that the paper does not claim).",
                            "derived from the paper's abstract page");
const bool dropped = judged("c", in_training(8), backward(2, Lep::drop, true), "C1d with the leftover of a mini-batch dropped, which the released code's page leaves open.", "derived", Profile::full);
const bool train_2 = judged("d", in_training(8), with(2), keeps + ": rank 2, M = 8, begun in training.", page);
const bool paper_none = judged("e", in_training(16), without(2), "C1a without lazy error propagation.");
const bool paper_8 = judged("f", in_training(16), with(8), "C1a at rank 8.");
const bool paper_scratch = judged("g", from_scratch(16), with(2), "C1a from scratch.");
const bool scratch_2 = judged("h", from_scratch(8), with(2), keeps + ": rank 2, M = 8, from scratch.", page);
const bool scratch_4 = judged("i", from_scratch(8), with(4), "C1h at rank 4.");
const bool scratch_8 = judged("j", from_scratch(8), with(8), "C1h at rank 8.");
const bool scratch_16 = judged("k", from_scratch(8), with(16), "C1h at rank 16.");
const bool scratch_none_2 = judged("l", from_scratch(8), without(2), "C1h without lazy error propagation.");
const bool scratch_none_8 = judged("m", from_scratch(8), without(8), "C1j without lazy error propagation.");
const bool all_none = judged("n", from_scratch(8), backward(2, Lep::off, false), "C1b without lazy error propagation.");
const bool train_4 = judged("o", in_training(8), with(4), "C1d at rank 4.");
const bool train_8 = judged("p", in_training(8), with(8), "C1d at rank 8.");
const bool train_16 = judged("q", in_training(8), with(16), "C1d at rank 16.");
const bool train_none_2 = judged("r", in_training(8), without(2), "C1d without lazy error propagation.");
const bool train_none_8 = judged("s", in_training(8), without(8), "C1p without lazy error propagation.");
const bool half_rate = judged("t", at_rate(0.5), with(2), "C1h at half the learning rate.");
const bool double_rate = judged("u", at_rate(2), with(2), "C1h at twice the learning rate.");
const bool wide = judged("v", of_width(256), with(2), "C1d at hidden 256.", "derived", Profile::full);
const bool wider = judged("w", of_width(512), with(2), "C1d at hidden 512.", "derived", Profile::full);
const bool later = judged("x", four_times_as_long(), with(2), "C1d begun after 2000 steps, for 2000 more.", "derived", Profile::full);

}  // namespace
}  // namespace thinwire::claims
