// low_bandwidth_pipeline.C13 and C14: subspaces that are learnt with the model, against one that is drawn and kept: what they keep of an activation beyond its token's embedding, and what they cost in
// loss.
#include <algorithm>
#include <cmath>

#include "experiments/claims/interval.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/projected_training.h"

namespace thinwire::claims {
namespace {

using namespace low_bandwidth_pipeline;

std::vector<Numbers> seeds_of(JudgeContext& context) {
  std::vector<Numbers> seeds;
  for (int seed = 1; seed <= context.seeds(); ++seed) seeds.push_back(projected_training(context, seed));
  return seeds;
}

Measure learned_measure(const std::vector<Numbers>& seeds) {
  double least = INFINITY;
  for (const Numbers& n : seeds)
    for (const std::string& arm : projected_arms) least = std::min(least, n.at("unigram").front() - n.at("loss " + arm).front());
  return {"control: unigram entropy - validation loss, least of arms and seeds", least, no_number, no_number, no_number, "nats per token", "learned"};
}

Rule projected_rule() {
  std::string rates;
  for (const std::string& rate : projected_rates) rates += " " + rate;
  Rule rule;
  rule.settings = {{"training", "GPT of race-s: 4 layers, hidden 64, 4 heads, " + std::to_string(projected_steps) + " steps of 8 x 64 bytes, AdamW, in one process, f64; a subspace of " +
                                    std::to_string(projected_rank) + " dimensions at each of three boundaries, both ways"},
                   {"learning rate", "by each arm the one that ended lowest with seed 101, of" + rates}};
  rule.arms = {{"fixed", {{"subspace", "U drawn; all blocks but the last write into its span (the subspace network, reparametrised)"}}},
               {"learnt", {{"subspace", "A along the manifold (alpha 0.002, beta 0.95), less the token's row of the model's own table"}}},
               {"naive", {{"subspace", "A by AdamW, never made orthonormal again, less the same"}}}};
  rule.quantities = {{"learned", "entropy of the text's single bytes less the validation loss, least of arms and seeds, nats per token"}};
  rule.constants = {{"none", 0, "no difference"}};
  rule.clauses = {{Verdict::unstable, "learned <= none"}};
  rule.smallest_effect = "smallest";
  return rule;
}

Finding measure_energy(JudgeContext& context) {
  const std::vector<Numbers> seeds = seeds_of(context);
  Table table{"part of the activation's square beyond the token's embedding that is kept", {"drawn", "learnt", "best"}, {}};
  std::vector<double> gains;
  double below = INFINITY;
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    const std::vector<double>&drawn = seeds[s].at("drawn"), &learnt = seeds[s].at("learnt"), &best = seeds[s].at("best");
    double gain = 0;
    for (std::size_t b = 0; b < drawn.size(); ++b) {
      gain += (learnt[b] - drawn[b]) / static_cast<double>(drawn.size());
      below = std::min(below, best[b] - std::max(learnt[b], drawn[b]));
      table.rows.push_back({"layer " + std::to_string(b + 1) + ", seed " + std::to_string(s + 1), {drawn[b], learnt[b], best[b]}});
    }
    gains.push_back(gain);
  }
  Finding found;
  found.measures = {measure_of("part that a learnt subspace keeps less that of a drawn one", interval_of(gains), 0.2, "", "gain"),
                    {"control: part that PCA keeps less the larger of both, least", below, no_number, no_number, 0, "", "below"},
                    learned_measure(seeds)};
  found.tables = {std::move(table)};
  return found;
}

Claim energy() {
  Rule rule = projected_rule();
  rule.settings["judged on"] = "8 x 64 bytes of the validation text, at the boundaries of the arm `learnt`";
  rule.quantities.insert(rule.quantities.end(),
                         {{"gain", "part of the square of X - E[t] that the learnt subspace keeps less that of a drawn one, mean of the boundaries; mean over seeds with its 95 % interval"},
                          {"below", "part that the largest singular values hold less the larger of both, least of boundaries and seeds"}});
  rule.constants.insert(rule.constants.end(), {{"rounding", 1e-6, "of the square"},
                                               {"stated", 0.2, "of the square; about 0.44 is stated for larger models"},
                                               {"little", 0.1, "of it"},
                                               {"smallest", 0.05, "of it: the smallest difference worth naming"}});
  rule.scatter = {{"gain", "stated", "smallest"}};
  rule.clauses.insert(rule.clauses.begin(), Clause{Verdict::invalid, "below < none - rounding"});
  rule.clauses.insert(rule.clauses.end(), {{Verdict::confirmed, "gain.low > stated"}, {Verdict::not_reproduced, "gain.high < little"}, {Verdict::direction_only, "gain.low > none"}});
  return {.id = "low_bandwidth_pipeline.C13",
          .statement = "Learned subspaces keep more of the activations than fixed ones.",
          .provenance = "second-hand (MAPL); derived (its tables of rank r are left out)",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {3, 6},
          .measure = measure_energy,
          .computed_by = projected_by};
}
const bool keeps_more = register_claim(energy());

Finding measure_losses(JudgeContext& context) {
  const std::vector<Numbers> seeds = seeds_of(context);
  Table table{"validation loss (nats per token), subspaces of " + std::to_string(projected_rank) + " of 64", {}, {}};
  std::map<std::string, std::vector<double>> losses;
  for (std::size_t s = 1; s <= seeds.size(); ++s) table.columns.push_back("seed " + std::to_string(s));
  for (const std::string& arm : projected_arms) {
    for (const Numbers& n : seeds) losses[arm].push_back(n.at("loss " + arm).front());
    table.rows.push_back({arm, losses[arm]});
  }
  Finding found;
  found.measures = {measure_of("L(fixed) - L(learnt)", paired_interval(losses["learnt"], losses["fixed"]), 0.005, "nats per token", "gain"),
                    measure_of("L(naive) - L(fixed)", paired_interval(losses["fixed"], losses["naive"]), 0.005, "nats per token", "naive"), learned_measure(seeds)};
  found.tables = {std::move(table)};
  return found;
}

bool loses(const std::string& part, const std::string& statement, const std::string& quantity, const std::string& what) {
  Rule rule = projected_rule();
  rule.quantities.push_back({quantity, what + ", validation losses, nats per token; paired over seeds, 95 % interval by Student's t"});
  rule.constants.insert(rule.constants.end(), {{"no_loss", 0.02, "nats per token: what counts as no loss"}, {"smallest", 0.005, "nats per token: the smallest difference worth naming"}});
  rule.scatter = {{quantity, "smallest", "no_loss"}};
  rule.clauses.insert(rule.clauses.end(), {{Verdict::confirmed, quantity + ".low > smallest"}, {Verdict::not_reproduced, quantity + ".high < none"}});
  return register_claim({.id = "low_bandwidth_pipeline.C14" + part,
                         .statement = statement,
                         .provenance = "second-hand (MAPL); derived (its tables of rank r are left out)",
                         .basis = Basis::training,
                         .from = Profile::standard,
                         .rule = rule,
                         .seeds = {3, 5},
                         .measure = measure_losses,
                         .computed_by = projected_by});
}
const bool beats = loses("a", "A subspace that is learnt along the manifold beats a fixed one at equal rank.", "gain", "L(fixed) - L(learnt)");
const bool naive_loses = loses("b", "One that is learnt naively is worse than a fixed one.", "naive", "L(naive) - L(fixed)");

}  // namespace
}  // namespace thinwire::claims
