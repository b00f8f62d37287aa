// optimus_cc.M4: the learning rate of all training arms is the best one for the arm without compression.
#include <algorithm>
#include <array>

#include "experiments/claims/optimus_cc/cells/arms.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

constexpr std::array grid = {0.001, 0.002, 0.003, 0.006, 0.01, 0.02};

Ground at(Ground ground, double rate) {
  ground.rate = rate;
  return ground;
}

constexpr int pilot_seeds = 3;

Rule make_rule() {
  Rule rule = training_rule(from_scratch(8), {dense()});
  std::string rates;
  for (const double rate : grid) rates += (rates.empty() ? "" : ", ") + digits(rate);
  rule.settings["learning-rate"] = rates;
  rule.settings["rate used by all arms"] = digits(learning_rate);
  rule.settings["seed"] = "1001 to 1003: no comparison uses them";
  rule.quantities = {{"lost", "final validation loss at the rate used less the least of the grid, nats per token, means over seeds"}, {"edge", "1 where the best rate is the grid's first or last, else 0"}};
  rule.constants = {quality_margin(), {"inside", 0, "not at an edge: the grid is wide enough"}};
  rule.clauses = {{Verdict::confirmed, "lost < margin && edge == inside"}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "margin";
  return rule;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  std::vector<Ground> grounds;
  for (const double rate : grid) grounds.push_back(at(from_scratch(8), rate));
  const std::vector<std::vector<double>> of = pilot_losses(context, grounds, pilot_seeds);
  Finding f;
  Table table{"pilot: validation loss of the dense arm by learning rate (nats per token)", {"learning rate", "mean", "seed 1001", "seed 1002", "seed 1003"}, {}};
  std::vector<double> means;
  for (std::size_t r = 0; r < grid.size(); ++r) {
    means.push_back(interval_of(of[r]).mean);
    std::vector<double> row = {grid[r], means.back()};
    row.insert(row.end(), of[r].begin(), of[r].end());
    table.rows.push_back({digits(grid[r]), std::move(row)});
  }
  const auto best = std::min_element(means.begin(), means.end());
  const auto used = means.begin() + (std::find(grid.begin(), grid.end(), learning_rate) - grid.begin());
  f.measures = {{"L at the rate used - least L of the grid", *used - *best, no_number, no_number, rule.constant("margin"), "nats per token", "lost"},
                {"best rate at an edge of the grid", best == means.begin() || best + 1 == means.end() ? 1.0 : 0.0, no_number, no_number, no_number, "", "edge"},
                {"best rate", grid[static_cast<std::size_t>(best - means.begin())], no_number, no_number, no_number, ""},
                {"rate used by all arms", learning_rate, no_number, no_number, no_number, ""}};
  f.tables = {table};
  f.note = from_scratch(8).name();
  return f;
}

Claim claim() {
  const Rule rule = make_rule();
  return {.id = "optimus_cc.M4",
          .statement = "The learning rate of all training arms is the best of a grid for the arm without compression.",
          .provenance = "derived: a check of ours",
          .basis = Basis::training,
          .from = Profile::standard,
          .rule = rule,
          .measure = [rule](JudgeContext& context) { return measure(context, rule); },
          .figure = "optimus_cc_learning_rate"};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
