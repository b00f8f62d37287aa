// sharded_compression.C12b: what a Hadamard transform of blocks of 32 does to int4 of the gradients of a training, matrix by matrix. Of given distributions: C12a.
#include "core/statistics.h"
#include "experiments/claims/interval.h"
#include "experiments/claims/sharded_compression/cells/trained_tensors.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

Finding measure(JudgeContext& context) {
  const std::vector<Numbers> seeds = trained_seeds(context);
  std::vector<double> medians;
  Table table{"error with H of 32 over error without, by matrix", {}, {}};
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    const std::vector<double>& ratios = seeds[s].at("hadamard");
    medians.push_back(median(ratios));
    table.rows.push_back({"seed " + std::to_string(s + 1), ratios});
  }
  for (std::size_t m = 0; m < seeds.front().at("hadamard").size(); ++m) table.columns.push_back("matrix " + std::to_string(m));
  Finding found;
  found.measures = {measure_of("error with H over error without, median over matrices", interval_of(medians), 0.9, "ratio", "ratio"), learned_measure(seeds)};
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  Rule rule = trained_rule();
  rule.settings["codec"] = "group:bits=4,group=128,round=stochastic, and +hadamard:block=32";
  rule.quantities.insert(rule.quantities.begin(), {"ratio", "relative L2 error of a micro-batch's gradient with the transform over that without, median over matrices, mean over seeds"});
  rule.constants = {{"helps", 0.9, "ratio: a smaller gain is not worth naming"}};
  rule.clauses.insert(rule.clauses.end(), {{Verdict::confirmed, "ratio.high <= helps"}, {Verdict::not_reproduced, "ratio.low > helps"}});
  rule.smallest_effect = "helps";
  return {.id = "sharded_compression.C12b",
          .statement = "The Hadamard transform lowers the error of a training's gradients.",
          .provenance = "derived",
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
