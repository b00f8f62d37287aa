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
/// Of all levels, joined: "(" + what of each + ")".
std::string sum(const std::string& before, const std::string& after) {
  std::string text;
  for (const Level& level : levels) text += (text.empty() ? "" : " + ") + ("((" + before) + level.symbol + after + ") ? 1 : 0)";
  return "(" + text + ")";
}
/// Levels at which either way loses what is worth naming.
std::string counted() {
  std::string text;
  for (const Level& level : levels) text += (text.empty() ? "" : " + ") + ("(max(" + level.symbol + "_forward, " + level.symbol + "_backward) >= smallest ? 1 : 0)");
  return "(" + text + ")";
}

const bool gradients = register_in_nats({.id = "activation_compression.C15",
                                         .statement = "Gradients need milder compression than activations.",
                                         .provenance = "read: abstract page of 2401.07788",
                                         .constants = {none, smallest, {"half", 0.5, "of the levels that lose anything worth naming"}},
                                         .scatter = {},
                                         .clauses = {{Verdict::inconclusive, counted() + " == none"},
                                                     {Verdict::confirmed, sum("", ".low > none") + " >= half * " + counted() + " && " + sum("", ".high < none") + " == none"},
                                                     {Verdict::not_reproduced, sum("", ".high < none") + " >= half * " + counted()}}},
                                        pipeline(), arms(), differences());

const RuleArm blocks{"8 bits in blocks, both ways", both("blockwise8", "all")};

const bool blockwise = register_in_nats({.id = "activation_compression.C25",
                                         .statement = "8-bit blockwise codes at stage boundaries are nearly lossless.",
                                         .provenance = "read: SWARM's code (use); recollected (numbers)",
                                         .constants = {{"ratio", 0.00995, "nats per token: a perplexity 1.01 times as large"}, smallest},
                                         .scatter = {{"lost", "ratio", "smallest"}},
                                         .clauses = {{Verdict::confirmed, "lost.high <= ratio"}, {Verdict::not_reproduced, "lost.low > ratio"}}},
                                        pipeline(), {dense, blocks}, {loss_difference("lost", blocks.name, dense.name)});

}  // namespace
}  // namespace thinwire::claims
