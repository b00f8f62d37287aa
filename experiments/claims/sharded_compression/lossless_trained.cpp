// sharded_compression.C21b: how much smaller the exponent window makes matrices of a trained model and their gradients, as bf16. Whether that pays on a link
// (C21c) is a question of times, and not built.
#include <algorithm>

#include "experiments/claims/interval.h"
#include "experiments/claims/sharded_compression/cells/trained_tensors.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

const std::vector<std::string> kinds = {"initial", "weights", "gradients"};

Finding measure(JudgeContext& context) {
  const std::vector<Numbers> seeds = trained_seeds(context);
  Finding found;
  Table table{"times smaller, by matrix", {}, {}};
  for (const std::string& kind : kinds) {
    std::vector<double> least;
    for (std::size_t s = 0; s < seeds.size(); ++s) {
      const std::vector<double>& ratios = seeds[s].at("lossless_" + kind);
      least.push_back(*std::ranges::min_element(ratios));
      table.rows.push_back({kind + ", seed " + std::to_string(s + 1), ratios});
    }
    found.measures.push_back(measure_of(kind + ": times smaller, the matrix that shrinks least", interval_of(least), kind == "initial" ? 1.38 : 1.25, "ratio", kind));
  }
  for (std::size_t m = 0; m < seeds.front().at("lossless_weights").size(); ++m) table.columns.push_back("matrix " + std::to_string(m));
  found.measures.push_back(learned_measure(seeds));
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  Rule rule = trained_rule();
  rule.settings["codec"] = "lossless, of bf16 numbers";
  rule.quantities.insert(rule.quantities.begin(), {{"initial", "times smaller than bf16, initial matrices, the one that shrinks least, mean over seeds"},
                                                   {"weights", "the same of the trained matrices"},
                                                   {"gradients", "the same of their gradients in the last step"}});
  rule.constants = {{"at_first", 1.38, "ratio, of normal numbers"}, {"worth", 1.25, "ratio: a smaller gain is not worth naming"}};
  rule.clauses.insert(rule.clauses.end(), {{Verdict::confirmed, "initial.low >= at_first && weights.low >= worth && gradients.low >= worth"},
                                           {Verdict::not_reproduced, "initial.high < at_first || weights.high < worth || gradients.high < worth"}});
  rule.smallest_effect = "worth";
  return {.id = "sharded_compression.C21b",
          .statement = "Lossless coding of exponents makes trained matrices and their gradients 1.25 times smaller than bf16.",
          .provenance = "read: abstract of 2604.27844; derived (codec)",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {3, 6},
          .measure = measure,
          .computed_by = trained_by};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
