// activation_compression.C15: the activations alone against the gradients alone, at equal levels. Both ways straight through: what is coded on the way forward leaves the gradient whole. And
// C25: 8 bits in blocks, both ways.
#include "experiments/claims/activation_compression/cells/pipelines.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

Comparison pipeline() { return four_stages("activations and gradients apart", training_steps); }

const RuleArm dense{"dense", {}};

struct Level {
  std::string symbol, name, codec;
};
const std::vector<Level> levels = {{"topk_20", "Top-20 %", "topk:fraction=0.2"}, {"topk_5", "Top-5 %", "topk:fraction=0.05"}, {"bits_4", "4 bits", "quantize:bits=4"}, {"bits_2", "2 bits", "quantize:bits=2"}};

RuleArm ahead(const Level& level) { return {level.name + " forward", forward(level.codec + "+straight_through")}; }
RuleArm back(const Level& level) { return {level.name + " backward", backward(level.codec)}; }

std::vector<RuleArm> arms() {
  std::vector<RuleArm> all = {dense};
  for (const Level& level : levels) all.push_back(ahead(level)), all.push_back(back(level));
  return all;
}
std::vector<LossDifference> differences() {
  std::vector<LossDifference> all;
  for (const Level& level : levels) {
    all.push_back(loss_difference(level.symbol, back(level).name, ahead(level).name));
    all.push_back(loss_difference(level.symbol + "_forward", ahead(level).name, dense.name));
    all.push_back(loss_difference(level.symbol + "_backward", back(level).name, dense.name));
  }
  return all;
}
/// Levels at which either way loses what is worth naming, and of which, where a part is named, `part` of the difference (backward less forward) is what `than` says.
std::string counted(const std::string& part = "", const std::string& than = "") {
  std::string text;
  for (const Level& level : levels) {
    const std::string more = part.empty() ? "" : level.symbol + part + " " + than + " && ";
    text += (text.empty() ? "" : " + ") + ("((" + more + "max(" + level.symbol + "_forward, " + level.symbol + "_backward) >= smallest) ? 1 : 0)");
  }
  return "(" + text + ")";
}

const bool gradients = register_in_nats({.id = "activation_compression.C15",
                                         .statement = "Gradients need milder compression than activations.",
                                         .provenance = "read: abstract page of 2401.07788",
                                         .constants = {none, smallest, {"half", 0.5, "of the levels that lose anything worth naming"}},
                                         .scatter = {},
                                         .clauses = {{Verdict::inconclusive, counted() + " == none"},
                                                     {Verdict::confirmed, counted(".low", "> none") + " >= half * " + counted() + " && " + counted(".high", "< none") + " == none"},
                                                     {Verdict::not_reproduced, counted(".high", "< none") + " >= half * " + counted()}}},
                                        pipeline(), arms(), differences());

const RuleArm blocks{"8 bits in blocks, both ways", both("blockwise8", "all")};

const bool blockwise = register_in_nats({.id = "activation_compression.C25",
                                         .statement = "8-bit blockwise codes at stage boundaries are nearly lossless.",
                                         .provenance = "read: SWARM's code (use); recollected (numbers)",
                                         .constants = {{"ratio", 0.00995, "nats per token: a perplexity 1.01 times as large"}, no_loss, smallest},
                                         .scatter = {{"lost", "ratio", "no_loss"}},
                                         .clauses = {{Verdict::confirmed, "lost.high <= ratio"}, {Verdict::not_reproduced, "lost.low > ratio"}}},
                                        pipeline(), {dense, blocks}, {loss_difference("lost", blocks.name, dense.name)});

}  // namespace
}  // namespace thinwire::claims
