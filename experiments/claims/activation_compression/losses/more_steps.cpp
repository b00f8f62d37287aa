// activation_compression.C26b: a bottleneck of half the width takes more steps to a loss than the dense pipeline does, 8 bits in blocks, whose bytes are the same, need not. All arms train twice as
// long as the dense one takes to the loss that is asked for, by one schedule: so what is compared is reached in the middle of it by all, and nobody's rate falls earlier. SWARM's norms around its
// bottleneck are not built: ours is two linear maps.
#include <algorithm>
#include <cmath>

#include "experiments/claims/activation_compression/cells/pipelines.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

constexpr int asked_at = training_steps, trained = 2 * training_steps, looks = 40;

Comparison pipeline() {
  Comparison c = four_stages("steps to a loss", trained);
  c.cell.parameters.set("eval-interval", std::int64_t{trained / looks}), c.cell.parameters.set("warmup", std::int64_t{asked_at / 5});
  return c;
}

const RuleArm dense{"dense", {}}, bottleneck{"bottleneck of half the width", forward("autoencoder:fraction=0.5,init=xavier")}, blocks{"8 bits in blocks, both ways", both("blockwise8")};
const std::vector<RuleArm> arms = {dense, bottleneck, blocks};

using Curve = std::vector<std::pair<double, double>>;  ///< steps taken and validation loss

Curve curve_of(const results::CellRecord& record) {
  Curve curve;
  for (const results::TrainingCurveRow& row : record.training.curve)
    if (!std::isnan(row.validation_loss)) curve.emplace_back(static_cast<double>(row.step + 1), row.validation_loss);
  return curve;
}

/// By straight lines between validations.
double loss_at(const Curve& curve, double steps) {
  const auto after = std::ranges::find_if(curve, [&](const auto& point) { return point.first >= steps; });
  if (after == curve.end() || after == curve.begin()) return after == curve.end() ? no_number : after->second;
  const auto before = std::prev(after);
  return before->second + (after->second - before->second) * (steps - before->first) / (after->first - before->first);
}
/// Steps until the curve first comes down to `loss`; all of them where it never does.
double steps_to(const Curve& curve, double loss) {
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (curve[i].second > loss) continue;
    if (i == 0) return curve[i].first;
    const auto& [before, above] = curve[i - 1];
    return before + (curve[i].first - before) * (above - loss) / (above - curve[i].second);
  }
  return trained;
}

Finding measure(JudgeContext& context) {
  const Comparison comparison = pipeline();
  const auto records = train(context, cells_of(comparison, arms, context.seeds()), arms.size());
  std::vector<std::vector<double>> ratios(arms.size());
  Table table{"steps to the loss of " + std::to_string(asked_at) + " dense steps, over those of dense", {}, {}};
  for (int seed = 1; seed <= context.seeds(); ++seed) table.columns.push_back("seed " + std::to_string(seed));
  int never = 0;
  for (std::size_t a = 0; a < arms.size(); ++a) {
    for (std::size_t seed = 0; seed < records[a].size(); ++seed) {
      const Curve base = curve_of(records[0][seed]);
      const double loss = loss_at(base, asked_at), steps = steps_to(curve_of(records[a][seed]), loss);
      never += steps >= trained;
      ratios[a].push_back(steps / steps_to(base, loss));  // a curve with noise may have come down to it before
    }
    table.rows.push_back({arms[a].name, ratios[a]});
  }
  Finding found;
  found.measures = {measure_of("steps of the bottleneck over those of dense", interval_of(ratios[1]), 1.05, "ratio", "bottleneck"),
                    measure_of("steps of 8 bits in blocks over those of dense", interval_of(ratios[2]), no_number, "ratio", "blocks")};
  for (Measure& control : comparison_controls(arms, final_losses(records), entropies_of_text(records).unigram)) found.measures.push_back(std::move(control));
  found.tables = comparison_tables(comparison, arms, records);
  found.tables.insert(found.tables.begin(), std::move(table));
  found.note = comparison.name + (never > 0 ? "; " + std::to_string(never) + " runs never came down to it, and count as " + std::to_string(trained) + " steps" : "");
  return found;
}

Claim claim() {
  Rule rule = comparison_rule(pipeline(), arms);
  const std::string what =
      "steps until the validation loss first comes down to what the dense arm of the same seed has after 700 of its 1400 steps (straight lines between validations; never: 1400), over those in which the "
      "dense arm first comes down to it";
  rule.quantities.insert(rule.quantities.end(), {{"bottleneck", what + ", of the bottleneck; mean over seeds with its 95 % interval"}, {"blocks", "the same of 8 bits in blocks"}});
  rule.constants.insert(rule.constants.end(), {{"more", 1.05, "of the dense arm's steps"}, {"alike", 1.02, "of them"}, {"smallest", 0.02, "of them: the smallest difference worth naming"}});
  rule.scatter = {{"bottleneck", "more", "smallest"}};
  rule.clauses.insert(rule.clauses.end(), {{Verdict::confirmed, "bottleneck.low > more"}, {Verdict::not_reproduced, "bottleneck.high < alike"}, {Verdict::direction_only, "bottleneck.low > alike"}});
  rule.smallest_effect = "smallest";
  return {.id = "activation_compression.C26b",
          .statement = "A learned bottleneck of half the width needs more steps than the dense pipeline.",
          .provenance = "recollected (SWARM, weak); derived (linear maps without norms)",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .seeds = {3, 5},
          .measure = measure,
          .figure = "activation_losses"};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
