// activation_compression.C3 and C4: where, and in how many layers, activations are coded. Sums of two tensor-parallel ranks, forward alone (two in each layer), as the paper codes them: C3a and C4a in
// four layers, C3b and C4b in the page's eight. The gradient of a sum comes back whole, as theirs: Top-K straight through.
#include "experiments/claims/activation_compression/cells/pipelines.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

Comparison in_layers(int layers) {
  Comparison c = four_stages("where activations are coded, " + std::to_string(layers) + " layers", training_steps);
  c.cell.ranks = 2;
  c.cell.parameters.set("pp", std::int64_t{1});
  c.cell.parameters.set("tp", std::int64_t{2});
  c.cell.parameters.set("micro-batch", std::int64_t{16});
  c.cell.parameters.set("layers", std::int64_t{layers});
  return c;
}

struct Method {
  std::string symbol, name, codec;
};
const Method topk{"topk", "Top-5 %", "topk:fraction=0.05+straight_through"};
const std::vector<Method> methods = {{"encoder", "auto-encoder, 5 %", "autoencoder:fraction=0.05,init=xavier"}, topk, {"bits", "2 bits", "quantize:bits=2"}};

std::string range(int first, int count) { return count == 1 ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(first + count - 1); }
RuleArm arm(const Method& method, const std::string& layers) {
  return {method.name + ", layers " + layers, {{"compress.tp_forward", method.codec}, {"compress.tp_forward.layers", layers}}};
}
const RuleArm dense{"dense", {}};

/// Eight layers: Top-K alone of these methods may fail, as it did in four of four (C4a), where failing raises what the claim asks for or does not enter it.
std::vector<std::string> that_may_fail(int layers, const std::vector<std::string>& of_topk) { return layers == 8 ? of_topk : std::vector<std::string>(); }

/// A quarter of the layers, at the beginning and at the end.
bool where(const std::string& part, int layers, Profile from, const std::string& statement) {
  const int window = layers / 4;
  const std::string early = range(0, window), middle = range((layers - window) / 2, window), late = range(layers - window, window);
  std::vector<RuleArm> arms = {dense};
  LossDifference pooled{"pooled", {}};
  std::vector<LossDifference> each;
  for (const Method& m : methods) {
    for (const std::string& place : {early, middle, late}) arms.push_back(arm(m, place));
    const double share = 1.0 / static_cast<double>(methods.size());
    pooled.terms.emplace_back(arm(m, early).name, share), pooled.terms.emplace_back(arm(m, late).name, -share);
    each.push_back(loss_difference(m.symbol, arm(m, early).name, arm(m, late).name));
  }
  each.insert(each.begin(), pooled);
  return register_in_nats({.id = "activation_compression.C3" + part,
                           .statement = statement,
                           .provenance = "second-hand (Bian)",
                           .constants = {none, no_loss, smallest},
                           .scatter = {{"pooled", "none", "no_loss"}},
                           .clauses = {{Verdict::confirmed, "pooled.low > none && pooled >= smallest"}, {Verdict::not_reproduced, "pooled.high < none || (pooled.low > -smallest && pooled.high < smallest)"}},
                           .from = from,
                           .figure = "activation_places",
                           .may_fail = that_may_fail(layers, {arm(topk, early).name, arm(topk, middle).name})},
                          in_layers(layers), arms, each);
}

/// The last n layers, n = 0, 1/4, 1/2, 3/4 and all: the slope of the loss over n by least squares, per layer, mean over methods.
bool how_many(const std::string& part, int layers, Profile from, const std::string& statement) {
  std::vector<RuleArm> arms = {dense};
  LossDifference slope{"slope", {}};
  std::vector<std::string> may_fail;
  const double step = layers / 4.0, squares = step * step * 10;  // of (-2, -1, 0, 1, 2) steps
  for (const Method& m : methods)
    for (int quarters = 1; quarters <= 4; ++quarters) {
      const int n = layers / 4 * quarters;
      arms.push_back(arm(m, range(layers - n, n)));
      if (quarters >= 2 && m.symbol == topk.symbol) may_fail.push_back(arms.back().name);
      if (quarters != 2) slope.terms.emplace_back(arms.back().name, (quarters - 2) * step / squares / static_cast<double>(methods.size()));
    }
  slope.terms.emplace_back(dense.name, -2 * step / squares);  // of every method
  return register_in_nats({.id = "activation_compression.C4" + part,
                           .statement = statement,
                           .provenance = "recollected (Bian)",
                           .constants = {none,
                                         {"no_loss", no_loss.value / layers, "nats per token and layer: what counts as no loss, of all layers together"},
                                         {"smallest", 0.001, "nats per token and layer: the smallest slope worth naming"}},
                           .scatter = {{"slope", "none", "no_loss"}},
                           .clauses = {{Verdict::confirmed, "slope.low > none && slope >= smallest"}, {Verdict::not_reproduced, "slope.high < none || (slope.low > -smallest && slope.high < smallest)"}},
                           .from = from,
                           .figure = "activation_places",
                           .may_fail = that_may_fail(layers, may_fail)},
                          in_layers(layers), arms, {slope});
}

const bool early = where("a", 4, Profile::standard, "Compressing early layers hurts more than compressing late ones: one layer of four.");
const bool early_of_eight = where("b", 8, Profile::full, "Compressing early layers hurts more than compressing late ones: two layers of eight.");
const bool more = how_many("a", 4, Profile::standard, "The more layers are compressed, the larger the damage: of four.");
const bool more_of_eight = how_many("b", 8, Profile::full, "The more layers are compressed, the larger the damage: of eight.");

}  // namespace
}  // namespace thinwire::claims
