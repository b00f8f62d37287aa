// optimus_cc.M4: the learning rate of all training arms is the best one for the arm without compression.
#include <algorithm>
#include <array>

#include "experiments/claims/optimus_cc/cells/arms.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

constexpr std::array grid = {0.001, 0.002, 0.003, 0.006, 0.01};

Ground at(Ground ground, double rate) {
  ground.rate = rate;
  return ground;
}

Rule make_rule() {
  Rule rule = training_rule(from_scratch(8), {dense()});
  std::string rates;
  for (const double rate : grid) rates += (rates.empty() ? "" : ", ") + digits(rate);
  rule.settings["learning-rate"] = rates;
  rule.settings["rate used by all arms"] = digits(learning_rate);
  rule.settings["seed"] = "1001: no comparison uses it";
  rule.settings["ground"] = from_scratch(8).name() + "; and the dense arm of " + in_training(8).name();
  rule.settings["steps"] = std::to_string(from_scratch(8).steps()) + "; " + std::to_string(in_training(8).steps());
  rule.clauses.clear(), rule.constants.clear(), rule.quantities.clear();
  for (const char* length : {"short", "long"}) {
    const std::string of = std::string("_") + length;
    rule.quantities.push_back({"lost" + of, "final validation loss at the rate used less the least of the grid, nats per token, " + std::string(length) + " run"});
    rule.quantities.push_back({"edge" + of, "1 where the best rate of the " + std::string(length) + " run is the grid's first or last, else 0"});
  }
  rule.constants = {quality_margin(), {"inside", 0, "not at an edge: the grid is wide enough"}};
  rule.clauses = {{Verdict::confirmed, "max(lost_short, lost_long) < margin && max(edge_short, edge_long) == inside"}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "margin";
  return rule;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  std::vector<Ground> grounds;
  for (const Ground& ground : {from_scratch(8), in_training(8)})
    for (const double rate : grid) grounds.push_back(at(ground, rate));
  const std::vector<double> of = pilot_losses(context, grounds);
  Finding f;
  Table table{"pilot: validation loss of the dense arm by learning rate (nats per token)", {"learning rate", "short run", "long run"}, {}};
  for (std::size_t r = 0; r < grid.size(); ++r) table.rows.push_back({digits(grid[r]), {grid[r], of[r], of[grid.size() + r]}});
  for (std::size_t length = 0; length < 2; ++length) {
    const auto begin = of.begin() + static_cast<std::ptrdiff_t>(length * grid.size()), end = begin + grid.size();
    const auto best = std::min_element(begin, end);
    const auto used = begin + (std::find(grid.begin(), grid.end(), learning_rate) - grid.begin());
    const std::string name = length == 0 ? "short" : "long", steps = std::to_string(grounds[length * grid.size()].steps()) + " steps";
    f.measures.push_back({"L at the rate used - least L of the grid, " + steps, *used - *best, no_number, no_number, rule.constant("margin"), "nats per token", "lost_" + name});
    f.measures.push_back({"best rate at an edge of the grid, " + steps, best == begin || best + 1 == end ? 1.0 : 0.0, no_number, no_number, no_number, "", "edge_" + name});
  }
  f.tables = {table};
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
          .measure = [rule](JudgeContext& context) { return measure(context, rule); }};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
