// sharded_compression.C1: training with what ZeRO 1, 2 and 3 share out follows one device, in float64. FSDP's flat layout is not built: the verdict speaks of rows
// (docs/papers/sharded_compression.md, "Where our rules differ"). The control is what another rounding looks like: the same mesh in float32.
#include <algorithm>
#include <cmath>

#include "experiments/claims/sharded_compression/cells/sharded_run.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

const Settings shared = {{"dtype", "f64"}, {"steps", "20"}, {"global-batch", "16"}, {"dropout", "0.1"}};

Settings with(Settings settings, const Settings& more) {
  for (const auto& [name, value] : more) settings.insert_or_assign(name, value);
  return settings;
}

std::vector<NamedRequest> all_arms() {
  const std::vector<std::pair<std::string, Settings>> modes = {
      {"ZeRO-1", {{"zero-stage", "1"}}},
      {"ZeRO-2, reduced per micro-batch", {{"zero-stage", "2"}, {"zero-reduce", "micro_batch"}}},
      {"ZeRO-2, reduced per step", {{"zero-stage", "2"}, {"zero-reduce", "step"}}},
      {"ZeRO-3, kept for a pass", {{"zero-stage", "3"}, {"zero-keep", "layer"}, {"zero-reduce", "micro_batch"}, {"zero-prefetch", "2"}}},
      {"ZeRO-3, kept for a micro-batch", {{"zero-stage", "3"}, {"zero-keep", "micro_batch"}, {"zero-reduce", "micro_batch"}}},
      {"ZeRO-3, kept for the step", {{"zero-stage", "3"}, {"zero-keep", "step"}, {"zero-reduce", "step"}}}};
  const std::vector<std::pair<std::string, Settings>> meshes = {{"4 replicas", {{"dp", "4"}}}, {"2 stages", {{"dp", "2"}, {"pp", "2"}}}, {"2 tensor ranks", {{"dp", "2"}, {"tp", "2"}}}};
  std::vector<NamedRequest> arms = {{"one device", training(1, shared)}, {"control: float32", training(4, with(shared, {{"dtype", "f32"}, {"zero-stage", "3"}}))}};
  for (const auto& [mesh_name, mesh] : meshes)
    for (const int micro_batches : {1, 4})
      for (const auto& [name, mode] : modes) {
        const int replicas = std::stoi(mesh.at("dp"));
        const Settings batch = {{"micro-batch", std::to_string(16 / replicas / micro_batches)}};
        arms.push_back({name + ", " + mesh_name + ", M = " + std::to_string(micro_batches), training(4, with(with(with(shared, mesh), mode), batch))});
      }
  return arms;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  const std::vector<NamedRequest> arms = all_arms();
  std::vector<CellRequest> requests;
  for (const NamedRequest& arm : arms) requests.push_back(arm.request);
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  const results::CellRecord& alone = records[0];
  const double control = distance(records[1], alone), bound = rule.constant("bound");
  Finding found;
  Table table{"largest relative difference from one device", {"losses, norms, validation"}, {}};
  double farthest = 0;
  for (std::size_t i = 1; i < arms.size(); ++i) {
    const double apart = distance(records[i], alone);
    table.rows.push_back({arms[i].name, {apart}});
    if (i > 1) farthest = std::max(farthest, apart);
  }
  found.measures = {{"largest relative difference of a loss or norm from one device", farthest, no_number, no_number, bound, "", "farthest"},
                    {"control: the same in float32", control, no_number, no_number, bound, "", "control"},
                    {"steps of the reference", static_cast<double>(alone.training.curve.size()), no_number, no_number, no_number, "", "steps"}};
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  const Rule rule = with_arms({.settings = {{"layout", "rows; the flat one does not exist here"}},
                               .quantities = {{"farthest", "largest relative difference of a step's loss or gradient norm, or of the validation loss, from one device's, of all arms in float64"},
                                              {"control", "the same of ZeRO-3 in float32"},
                                              {"steps", "optimizer steps compared"}},
                               .constants = {{"bound", 1e-10, "relative: rounding of float64"}, {"wanted", 20, "steps"}},
                               .clauses = {{Verdict::invalid, "control <= bound"}, {Verdict::pass, "farthest <= bound && steps == wanted"}},
                               .otherwise = Verdict::fail},
                              all_arms());
  return {.id = "sharded_compression.C1",
          .statement = "Sharding does not change the numbers.",
          .provenance = "derived",
          .basis = Basis::exact,
          .from = Profile::standard,
          .rule = rule,
          .measure = [rule](JudgeContext& context) { return measure(context, rule); }};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
