// activation_compression.C22: what AQ-SGD lives by: the change of a sample's activation since its last epoch shrinks as training goes on.
#include <algorithm>
#include <numeric>

#include "experiments/claims/activation_compression/cells/watched_training.h"
#include "experiments/claims/interval.h"
#include "models/metrics/metric.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

Finding measure(JudgeContext& context) {
  const auto seeds = watched_seeds(context);
  std::vector<double> epochs(watched_epochs - 1), correlation, left;
  std::iota(epochs.begin(), epochs.end(), 2.0);
  Table table{"change of an activation since its last epoch", {}, {}};
  for (const double epoch : epochs) table.columns.push_back("epoch " + std::to_string(static_cast<int>(epoch)));
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    double ordered = -1, share = 0;  // of the boundary that shrinks least
    for (int b = 1; b <= watched_boundaries; ++b) {
      const std::vector<double>& change = seeds[s].at("change " + std::to_string(b));
      ordered = std::max(ordered, metric_value("spearman", change, epochs)), share = std::max(share, change.back() / change.front());
      table.rows.push_back({"layer " + std::to_string(b) + ", seed " + std::to_string(s + 1), change});
    }
    correlation.push_back(ordered), left.push_back(share);
  }
  Finding found;
  found.measures = {measure_of("rank correlation of change and epoch, the boundary where it is largest", interval_of(correlation), -0.8, "", "correlation"),
                    measure_of("change in the last epoch over that in the second, the boundary where it is largest", interval_of(left), 0.5, "ratio", "left"), learned_measure(seeds)};
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  Rule rule = watched_rule();
  rule.quantities.insert(rule.quantities.end(), {{"correlation", "Spearman's correlation of the epoch and mean ||x - m|| / ||x||, m what the sample's activation was an epoch before (f16), of the boundary where it is "
                                                                 "largest; mean over seeds with its 95 % interval"},
                                                 {"left", "that change in the last epoch over that in the second, of the boundary where it is largest; mean over seeds"}});
  rule.constants = {{"falls", -0.8, "of the rank correlation"}, {"half", 0.5, "of the first change"}, {"none", 0, "no order"}, {"smallest", 0.05, "of the first change: the smallest difference worth naming"}};
  rule.scatter = {{"left", "half", "smallest"}};
  rule.clauses.insert(rule.clauses.end(), {{Verdict::confirmed, "correlation.high <= falls && left.high <= half"}, {Verdict::not_reproduced, "correlation.low >= none"}, {Verdict::direction_only, "correlation.high < none"}});
  rule.smallest_effect = "smallest";
  return {.id = "activation_compression.C22",
          .statement = "The change of an activation shrinks over the epochs.",
          .provenance = "derived",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {3, 6},
          .measure = measure,
          .computed_by = watched_by,
          .figure = "activation_changes"};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
