// low_communication.C1: replicas that take one step of plain descent apart and then average their weights are
// synchronous descent. The control is a round of two steps, which is another run.
#include <algorithm>
#include <cmath>

#include "experiments/claims/arms.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"

namespace thinwire::claims {
namespace {

using sharded_compression::training;
using Settings = std::map<std::string, std::string>;

CellRequest run(const std::string& dtype, const Settings& more) {
  Settings s = {{"dtype", dtype},   {"steps", "20"}, {"layers", "2"},        {"learning-rate", "0.3"},
                {"min-lr", "0.03"}, {"warmup", "2"}, {"clip", "1000000000"}, {"optimizer", "sgd:momentum=0"}};
  for (const auto& [name, value] : more) s.insert_or_assign(name, value);
  CellRequest r = training(4, s);
  r.tags = {"low_communication"};
  return r;
}

Settings apart(int steps) {
  return {{"dp-replicas", "4"},
          {"optimizer", "sgd:momentum=0+local_sgd:inner_steps=" + std::to_string(steps) + ",rate=1"}};
}

std::vector<NamedRequest> requests() {
  return {{"dense, float64", run("f64", {})},
          {"one step apart, float64", run("f64", apart(1))},
          {"control: two steps apart, float64", run("f64", apart(2))},
          {"dense, float32", run("f32", {})},
          {"one step apart, float32", run("f32", apart(1))}};
}

/// Of training and validation losses; norms are of other things.
double distance(const results::CellRecord& a, const results::CellRecord& b) {
  const auto &x = a.training.curve, &y = b.training.curve;
  if (x.empty() || x.size() != y.size()) return INFINITY;
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::abs(x[i].loss / y[i].loss - 1));
    if (!std::isnan(y[i].validation_loss))
      most = std::max(most, std::abs(x[i].validation_loss / y[i].validation_loss - 1));
  }
  return most;
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  Finding f;
  f.measures = {
      {"largest relative difference of a loss from dense descent, float64", distance(records[1], records[0]),
       no_number, no_number, 1e-12, "", "exact"},
      {"the same in float32", distance(records[4], records[3]), no_number, no_number, 1e-5, "", "single"},
      {"control: the same of rounds of two steps, float64", distance(records[2], records[0]), no_number,
       no_number, no_number, "", "control"}};
  return f;
}

const bool registered = register_claim(
    {.id = "low_communication.C1",
     .statement = "Degenerate cases are exact: H = 1, plain SGD, outer rate 1 is synchronous SGD.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.quantities = {{"exact",
                                        "largest relative difference of a training or validation loss of 20 "
                                        "steps from dense descent's, float64"},
                                       {"single", "the same in float32"},
                                       {"control", "the same of rounds of two steps"}},
                        .constants = {{"bound", 1e-12, "relative: rounding of float64"},
                                      {"single_bound", 1e-5, "relative: rounding of float32"}},
                        .clauses = {{Verdict::invalid, "control <= single_bound"},
                                    {Verdict::pass, "exact <= bound && single <= single_bound"}},
                        .otherwise = Verdict::fail},
                       requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
