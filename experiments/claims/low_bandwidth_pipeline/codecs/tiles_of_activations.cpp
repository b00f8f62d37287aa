// low_bandwidth_pipeline.C12b: TAH-Quant's rotation and allocation of bits against plain groups of 4 bits, on boundary activations of a training. Plain groups come in 64 and 128 neighbours, 4.5 and
// 4.25 bits of an element: on both sides of what TAH takes, so that each side of the rule gives the other method the larger payload.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/claims/activation_compression/cells/watched_training.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

Finding measure(JudgeContext& context) {
  const auto seeds = watched_seeds(context);
  std::vector<double> more, fewer;
  double gap = INFINITY;
  Table table{"square error over the square of the activation (1e-3)", {}, {}};
  for (const WatchedCodec& c : watched_codecs) table.columns.push_back(c.name);
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    const auto of = [&](const char* what, std::size_t codec) -> const std::vector<double>& { return seeds[s].at(what + (", " + watched_codecs[codec].name)); };
    std::vector<double> ratios[2];
    for (std::size_t i = 0; i < of("error", 0).size(); ++i) {
      table.rows.push_back({"look " + std::to_string(i / watched_boundaries + 1) + ", layer " + std::to_string(i % watched_boundaries + 1) + ", seed " + std::to_string(s + 1), {}});
      for (std::size_t c = 0; c < watched_codecs.size(); ++c) table.rows.back().values.push_back(1e3 * of("error", c)[i]);
      for (std::size_t plain : {1, 2}) ratios[plain - 1].push_back(of("error", plain)[i] / of("error", 0)[i]);
      gap = std::min({gap, of("bits", 1)[i] - of("bits", 0)[i], of("bits", 0)[i] - of("bits", 2)[i]});
    }
    more.push_back(mean_of(ratios[0])), fewer.push_back(mean_of(ratios[1]));
  }
  Finding found;
  found.measures = {measure_of("error of plain groups of 4.5 bits over TAH's", interval_of(more), 1.1, "ratio", "more"),
                    measure_of("error of plain groups of 4.25 bits over TAH's", interval_of(fewer), 1, "ratio", "fewer"),
                    {"control: bits that part TAH from either, least", gap, no_number, no_number, 0, "bits", "gap"},
                    learned_measure(seeds)};
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  Rule rule = watched_rule();
  for (const WatchedCodec& c : watched_codecs) rule.arms.push_back({c.name, {{"codec", c.codec}}});
  rule.settings["activations"] = "in front of layers 1 to 3 after 10, 50 and 100 % of the steps";
  rule.quantities.insert(rule.quantities.end(), {{"more", "square error of plain groups of 64 over that of TAH, mean over activations, mean over seeds with its 95 % interval"},
                                                 {"fewer", "the same of plain groups of 128"},
                                                 {"gap", "bits of an element by which TAH's payload lies between those of the two, least of all activations"}});
  rule.constants = {{"pays", 1.1, "of TAH's error, from plain groups that take more bits"},
                    {"equal", 1, "of it, from plain groups that take fewer"},
                    {"none", 0, "bits"},
                    {"smallest", 0.02, "of TAH's error: the smallest difference worth naming"}};
  rule.scatter = {{"more", "pays", "smallest"}};
  rule.clauses.insert(rule.clauses.end(),
                      {{Verdict::invalid, "gap < none"}, {Verdict::confirmed, "more.low > pays"}, {Verdict::not_reproduced, "fewer.high < equal"}, {Verdict::direction_only, "more.low > equal"}});
  rule.smallest_effect = "smallest";
  return {.id = "low_bandwidth_pipeline.C12b",
          .statement = "On activations of a training, rotation and allocation of bits by entropy lower the square error at equal bytes.",
          .provenance = "derived; second-hand (rotation)",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {3, 6},
          .measure = measure,
          .computed_by = watched_by};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
