// optimus_cc.C11: what a weight gradient loses over a mini-batch, with and without lazy error propagation.
#include <cstdio>

#include "core/statistics.h"
#include "experiments/claims/interval.h"
#include "experiments/claims/optimus_cc/cells/boundary_probe.h"

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

Outcome judge_seeds(const std::vector<ProbedSeed>& seeds) {
  Outcome o;
  const Interval all = over_seeds(seeds, -1, -1);
  o.measures.push_back(measure_of("median R", all, 0.9, "ratio"));
  for (std::size_t c = 0; c < probe_percent.size(); ++c)
    o.measures.push_back(measure_of("median R at " + std::to_string(probe_percent[c]) + " %", over_seeds(seeds, static_cast<int>(c), -1), 0.9, "ratio"));
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
  o.verdict = all.high < 0.9 ? Verdict::confirmed : all.low > 1 ? Verdict::refuted : Verdict::inconclusive;
  char text[160];
  std::snprintf(text, sizeof text, "median R %.3f, 95 %% interval [%.3f, %.3f] (confirmed below 0.9, refuted above 1); %zu seeds", all.mean, all.low, all.high, seeds.size());
  o.because = text;
  return o;
}

const bool registered =
    register_claim({.id = "optimus_cc.C11",
                    .statement = "Lazy error propagation lowers the error that a weight gradient accumulates over a mini-batch.",
                    .provenance = "derived",
                    .rule = "weights frozen after 10, 50 and 100 % of training, 50 mini-batches each, messages of the last boundary of rank 2 (residual carried over): R = ||G_LEP - G_true|| / "
                            "||G_noLEP - G_true|| per weight matrix of the stages before it; median per seed: CONFIRMED if its upper bound < 0.9, REFUTED if its lower bound > 1",
                    .basis = Basis::training,
                    .from = Profile::standard,
                    .judge = [](JudgeContext& context) {
                      return with_doubled_seeds(context, [&](int seeds) { return judge_seeds(probed_seeds(context, seeds)); });
                    }});

}  // namespace
}  // namespace thinwire::claims
