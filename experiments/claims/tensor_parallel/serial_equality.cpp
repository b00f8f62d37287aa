// tensor_parallel.C2: what grids compute is what one device computes: every layer in float64, and a training run in float32.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "experiments/claims/tensor_parallel/cells/arms.h"
#include "experiments/claims/tensor_parallel/cells/probe.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double layer_bound = 1e-10, loss_bound = 1e-5;
constexpr int steps = 50;

struct Launch {
  int ranks;
  std::string mode;
};
/// Cubes of q = 2 and 3 and a box of unequal sides; SUMMA with (q, d) = (2, 1), (3, 1), (2, 2), (4, 2).
const std::vector<Launch> launches = {{8, "3d"}, {27, "3d"}, {12, "3d:sides=2x2x3"}, {4, "2d"}, {9, "2d"}, {8, "2.5d:depth=2"}, {32, "2.5d:depth=2"}};
const std::vector<Launch> trained = {{1, "1d"}, {8, "3d"}, {8, "2.5d:depth=2"}, {4, "2d"}};

CellRequest training_request(const Launch& launch) {
  CellRequest r;
  r.program = "train_gpt";
  r.timed = false;
  r.ranks = launch.ranks;
  const std::map<std::string, std::string> settings = {{"tp", std::to_string(launch.ranks)}, {"tensor-parallel", launch.mode}, {"layers", "2"}, {"hidden", "64"}, {"heads", "4"},
                                                       {"seq", "32"}, {"micro-batch", "8"}, {"global-batch", "8"}, {"comm-dtype", "f32"}, {"steps", std::to_string(steps)}};
  for (const auto& [name, value] : settings) r.parameters.set(name, value);
  r.tags = {"tensor_parallel", "training"};
  return r;
}

std::vector<NamedRequest> training_arms() {
  std::vector<NamedRequest> arms;
  for (const Launch& launch : trained) arms.push_back({launch.mode + " on " + std::to_string(launch.ranks), training_request(launch)});
  return arms;
}
std::string grids_of_launches() {
  std::string text;
  for (const Launch& launch : launches) text += (text.empty() ? "" : "; ") + launch.mode + " on " + std::to_string(launch.ranks);
  return text;
}

bool is_error(const results::CellRow& row) { return !std::isnan(row.relative_l2) && row.operation.find("other layout") == std::string::npos; }

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> requests;
  for (const Launch& launch : launches)
    for (const char* what : {"linears", "layers", "chains"}) requests.push_back(check_request(what, launch.ranks, launch.mode));
  const std::size_t checks = requests.size();
  for (const Launch& launch : trained) requests.push_back(training_request(launch));
  const std::vector<results::CellRecord> records = context.cells.run(requests);

  Finding found;
  Table errors{"relative L2 against float64, worst over the grids", {"distance", "rows"}, {}}, by_grid{"worst relative L2 by grid", {"ranks", "distance"}, {}};
  double worst = 0;
  int rows = 0;
  std::map<std::string, std::pair<double, int>> by_tensor;
  std::map<std::string, std::pair<double, int>> by_method;
  for (std::size_t i = 0; i < checks; ++i)
    for (const results::CellRow& row : records[i].rows) {
      if (!is_error(row)) continue;
      ++rows;
      worst = std::max(worst, row.relative_l2);
      auto& [distance, count] = by_tensor[row.tensor + ", " + row.operation];
      distance = std::max(distance, row.relative_l2), ++count;
      auto& [of_grid, ranks] = by_method[row.method];
      of_grid = std::max(of_grid, row.relative_l2), ranks = records[i].ranks;
    }
  for (const auto& [name, value] : by_tensor) errors.rows.push_back({name, {value.first, static_cast<double>(value.second)}});
  for (const auto& [name, value] : by_method) by_grid.rows.push_back({name, {static_cast<double>(value.second), value.first}});

  Table curves{"losses of 50 steps (nats per token)", {}, {}};
  const std::vector<results::TrainingCurveRow>& alone = records[checks].training.curve;
  double farthest = 0;
  int missing = 0;
  std::string told;
  for (std::size_t k = 0; k < trained.size(); ++k) {
    const std::vector<results::TrainingCurveRow>& curve = records[checks + k].training.curve;
    missing += std::abs(static_cast<int>(curve.size()) - steps);
    double apart = 0;
    Table::Row row{trained[k].mode + " on " + std::to_string(trained[k].ranks), {}};
    for (std::size_t s = 0; s < std::min(curve.size(), alone.size()); ++s) {
      apart = std::max(apart, std::abs(curve[s].loss - alone[s].loss));
      row.values.push_back(curve[s].loss);
    }
    if (!(apart <= farthest)) farthest = apart;
    curves.rows.push_back(std::move(row));
    if (k > 0) found.measures.push_back({"largest loss difference of a step, " + trained[k].mode + " on " + std::to_string(trained[k].ranks) + " ranks", apart, no_number, no_number, loss_bound, "nats"});
  }
  for (std::size_t s = 0; s < alone.size(); ++s) curves.columns.push_back("step " + std::to_string(s));
  found.measures.insert(found.measures.begin(), {"largest relative L2 of outputs and gradients, float64", worst, no_number, no_number, layer_bound, "", "worst"});
  found.measures.push_back({"largest loss difference of a step, all runs", farthest, no_number, no_number, loss_bound, "nats", "farthest"});
  found.measures.push_back({"outputs and gradients compared", static_cast<double>(rows), no_number, no_number, no_number, "", "rows"});
  found.measures.push_back({"optimizer steps without a loss, all runs", static_cast<double>(missing), no_number, no_number, 0, "", "missing"});
  found.tables = {std::move(errors), std::move(by_grid), std::move(curves)};
  char text[700];
  std::snprintf(text, sizeof text, "%d outputs and gradients of linears (P, H, swapped, all policies), chains, bias, layernorm, embedding, tied head, cross-entropy: at most %.1e; %d steps%s in f32: losses "
                                   "at most %.1e nats apart", rows, worst, static_cast<int>(alone.size()), missing == 0 ? "" : " (incomplete)", farthest);
  found.note = text;
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C2",
     .statement = "Training with 2-D, 2.5-D and 3-D tensor parallelism computes the serial result.",
     .provenance = "read: the released tests of Colossal-AI hold layers against serial ones; bounds derived",
     .basis = Basis::exact,
     .from = Profile::standard,
     .rule = with_arms({.settings = {{"grids of the layers", grids_of_launches()}},
                        .quantities = {{"worst", "largest relative L2 distance of an output or gradient from one device's, float64: linears (P, H, swapped, all policies), chains, bias, layernorm, embedding, tied "
                                                 "head, cross-entropy"},
                                       {"rows", "outputs and gradients compared"},
                                       {"farthest", "largest |L(grid) - L(one device)| of an optimizer step, a 2-layer Transformer in f32, nats per token"},
                                       {"missing", "optimizer steps of the runs that have no loss"}},
                        .constants = {{"layer_bound", layer_bound, "relative L2: rounding of float64"}, {"loss_bound", loss_bound, "nats per token: rounding of f32"}},
                        .clauses = {{Verdict::pass, "rows > 0 && worst <= layer_bound && missing == 0 && farthest <= loss_bound"}},
                        .otherwise = Verdict::fail},
                       training_arms()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
