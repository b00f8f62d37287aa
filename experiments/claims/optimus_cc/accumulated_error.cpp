// optimus_cc.C11: what a weight gradient loses over a mini-batch, with and without lazy error propagation.
#include "core/statistics.h"
#include "experiments/claims/interval.h"
#include "experiments/claims/optimus_cc/cells/boundary_probe.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

/// Median over matrices (of one layer; -1: of all) and mini-batches of one seed; checkpoint -1: of all.
double median_ratio(const ProbedSeed& seed, int checkpoint, int layer) {
  std::vector<double> all;
  const std::vector<ProbeMatrix> matrices = probe_matrices();
  for (std::size_t c = 0; c < seed.checkpoints.size(); ++c)
    for (std::size_t m = 0; m < matrices.size(); ++m)
      if ((checkpoint < 0 || static_cast<int>(c) == checkpoint) && (layer < 0 || matrices[m].layer == layer)) {
        const auto& of = seed.checkpoints[c].gradient_error[m];
        all.insert(all.end(), of.begin(), of.end());
      }
  return median(all);
}

Interval over_seeds(const std::vector<ProbedSeed>& seeds, int checkpoint, int layer) {
  std::vector<double> values;
  for (const ProbedSeed& s : seeds) values.push_back(median_ratio(s, checkpoint, layer));
  return interval_of(values);
}

Rule make_rule() {
  Rule rule = probe_rule();
  rule.settings["mini-batches"] = std::to_string(probe_mini_batches) + " at each point, with frozen weights";
  rule.quantities.push_back({"error", "R = ||G_LEP - G_true|| / ||G_noLEP - G_true|| of a weight gradient summed over a mini-batch, the residual carried over, weight matrices of the stages before "
                                      "the last boundary; median over matrices, mini-batches and points of one seed; mean over seeds, 95 % interval by Student's t"});
  rule.constants = {{"none", 1, "ratio: LEP changes nothing"}, {"smallest", 0.1, "ratio: the smallest change worth naming"}};
  rule.scatter = {{"error", "none", "smallest"}};
  rule.clauses.push_back({Verdict::confirmed, "error.high < none - smallest"});
  rule.clauses.push_back({Verdict::not_reproduced, "error.low > none"});
  rule.smallest_effect = "smallest";
  return rule;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  const std::vector<ProbedSeed> seeds = probed_seeds(context, context.seeds());
  Finding o;
  const double margin = rule.constant("none") - rule.constant("smallest");
  o.measures.push_back(measure_of("median R", over_seeds(seeds, -1, -1), margin, "ratio", "error"));
  for (std::size_t c = 0; c < probe_percent.size(); ++c)
    o.measures.push_back(measure_of("median R at " + std::to_string(probe_percent[c]) + " %", over_seeds(seeds, static_cast<int>(c), -1), margin, "ratio"));
  Table depth{"R by depth", {"layers before the boundary", "R", "low", "high"}, {}}, matrices{"R by weight matrix", {"layer", "R"}, {}};
  for (int layer = probe_boundary - 1; layer >= 0; --layer) {
    const Interval i = over_seeds(seeds, -1, layer);
    const int before = probe_boundary - layer;
    o.measures.push_back(measure_of("median R, " + std::to_string(before) + (before == 1 ? " layer" : " layers") + " before the boundary", i, no_number, "ratio"));
    depth.rows.push_back({"layer " + std::to_string(layer), {static_cast<double>(before), i.mean, i.low, i.high}});
  }
  for (std::size_t m = 0; m < probe_matrices().size(); ++m) {
    std::vector<double> values;
    for (const ProbedSeed& s : seeds)
      for (const Checkpoint& c : s.checkpoints) values.insert(values.end(), c.gradient_error[m].begin(), c.gradient_error[m].end());
    matrices.rows.push_back({probe_matrices()[m].name, {static_cast<double>(probe_matrices()[m].layer), median(values)}});
  }
  o.tables = {depth, matrices};
  o.measures.push_back(learned_measure(seeds));
  return o;
}

Claim claim() {
  const Rule rule = make_rule();
  return {.id = "optimus_cc.C11",
          .statement = "Lazy error propagation lowers the error that a weight gradient accumulates over a mini-batch.",
          .provenance = "derived",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {5, 10},
          .measure = [rule](JudgeContext& context) { return measure(context, rule); },
          .past = {one_control()}};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
