// activation_compression.C5: how many singular values hold 90 % of a weight gradient, of an activation between layers, and of the gradient that comes back there. What of inter-stage gradients may be
// compressed by low rank rests on the last, not on the first.
#include "experiments/claims/activation_compression/cells/watched_training.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

Finding measure(JudgeContext& context) {
  const auto seeds = watched_seeds(context);
  Finding found;
  std::vector<double> lower, not_lower;
  Table table{"share of singular values that hold 90 % of the energy", {"weight gradient", "activation", "activation, centred", "returning gradient"}, {}};
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    const auto &weight = seeds[s].at("weight"), &raw = seeds[s].at("activation"), &centred = seeds[s].at("centred"), &returning = seeds[s].at("returning");
    double half = 0, more = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) {
      half += weight[i] <= 0.5 * centred[i], more += weight[i] >= centred[i];
      // Gradients travel back from the last layer to the first.
      const std::size_t layer = i % watched_boundaries, back = i - layer + watched_boundaries - 1 - layer;
      const char* const when[] = {"10 %", "50 %", "100 %"};
      table.rows.push_back({"layer " + std::to_string(layer + 1) + ", " + when[i / watched_boundaries] + ", seed " + std::to_string(s + 1), {weight[i], raw[i], centred[i], returning[back]}});
    }
    const auto pairs = static_cast<double>(weight.size());
    lower.push_back(half / pairs), not_lower.push_back(more / pairs);
  }
  found.measures = {measure_of("pairs in which the weight gradient's share is at most half of the centred activation's", interval_of(lower), 0.8, "of the pairs", "half"),
                    measure_of("pairs in which it is not smaller", interval_of(not_lower), 0.5, "of the pairs", "more"), learned_measure(seeds)};
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  Rule rule = watched_rule();
  rule.settings["pairs"] = "layers 1 to 3 after 10, 50 and 100 % of the steps";
  rule.quantities.insert(rule.quantities.end(), {{"half", "share of the pairs in which the singular values that hold 90 % of the energy of the gradient [128, 512] of the MLP's first matrix, over 128, are at most half "
                                                          "of those of the activation [512, 128] in front of that layer, less its mean per channel; mean over seeds with its 95 % interval"},
                                                 {"more", "share of the pairs in which they are not fewer; mean over seeds"}});
  rule.constants = {{"most_pairs", 0.8, "of the pairs"}, {"half_of_pairs", 0.5, "of them"}, {"smallest", 0.1, "of the pairs: the smallest difference worth naming"}};
  rule.clauses.insert(rule.clauses.end(), {{Verdict::confirmed, "half >= most_pairs"}, {Verdict::not_reproduced, "more >= half_of_pairs"}, {Verdict::direction_only, "more < smallest"}});
  rule.smallest_effect = "smallest";
  return {.id = "activation_compression.C5",
          .statement = "Gradients are low-rank, activations are not.",
          .provenance = "second-hand (gradients); recollected (activations)",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {3},
          .measure = measure,
          .computed_by = watched_by};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
