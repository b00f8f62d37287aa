#include "models/cost_model/memory_limit.h"

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/cost_model/flat_sizes.h"
#include "models/stage/geometry.h"
#include "models/store/parameter_store.h"
#include "models/training/parallel_trainer.h"
#include "models/training/step_schedule.h"

namespace thinwire {
namespace {

std::string mib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / (1 << 20));
  return text;
}

struct Need {
  MemoryEstimate memory;
  int rank = 0;
};
/// Of the rank that needs most.
Need largest_need(const TrainConfig& config) {
  Need most;
  for (int rank = 0; rank < config.mesh.ranks(); ++rank) {
    const MemoryEstimate m = estimate_memory(config, mesh_coordinates(config.mesh, rank));
    if (rank == 0 || m.total() > most.memory.total()) most = {m, rank};
  }
  return most;
}

/// Of a zero stage above the run's own that goes with the rest of it.
std::optional<std::int64_t> need_at(TrainConfig config, int zero_stage) {
  config.zero_stage = zero_stage;
  try {
    config.check();
    return largest_need(config).memory.total();
  } catch (const UsageError&) {  // not with this optimizer, layout or codec
    return std::nullopt;
  }
}

struct WholeUnit {
  std::string name;
  std::int64_t bytes = 0;
};
/// What is whole at once whatever is shared out: the largest unit of a rank, or where it lies flat the largest flat parameter.
WholeUnit largest_unit(const TrainConfig& c, int rank) {
  const MeshCoordinates at = mesh_coordinates(c.mesh, rank);
  const Schedule schedule = training_schedule(c);
  const TensorSplit split{parse_grid(c.tensor_parallel, c.mesh.tp), at.tp, c.sequence_parallel};
  const std::int64_t size = c.dtype == DType::f64 ? 8 : 4;
  const std::vector<Geometry> chunks = stage_geometries(c, schedule, at.pp, split);
  WholeUnit largest;
  const auto see = [&](const std::string& name, std::int64_t elements) {
    if (elements * size > largest.bytes) largest = {name, elements * size};
  };
  if (const std::optional<FlatSizes> flat = flat_sizes(c, chunks)) {
    for (const FlatParameter& parameter : flat->parameters) see(parameter.name, parameter.elements());
    return largest;
  }
  for (const Geometry& chunk : chunks)
    for (const DeclaredUnit& unit : chunk.units) {
      std::int64_t elements = 0;
      for (const DeclaredParameter& p : unit.parameters) elements += p.local();
      see(unit.name, elements);
    }
  return largest;
}

std::string mend(const TrainConfig& config, const Need& need, std::int64_t limit) {
  for (const StoreInfo* store : all_stores()) {
    if (store->zero_stage <= config.zero_stage || config.mesh.data().within_replica() == 1) continue;
    if (const auto bytes = need_at(config, store->zero_stage); bytes && *bytes <= limit) return "--zero-stage " + std::to_string(store->zero_stage) + " needs " + mib(*bytes) + " MiB";
  }
  if (const WholeUnit unit = largest_unit(config, need.rank); 2 * unit.bytes > limit)
    return "its unit " + unit.name + " alone has " + mib(unit.bytes) + " MiB of weights and as much of gradients, whole while it computes whatever replicas share out; cut it over more tensor ranks (--tp " +
           std::to_string(2 * config.mesh.tp) + ") or make it smaller";
  const MemoryEstimate& m = need.memory;
  if (m.activations > m.weights + m.gradients + m.optimizer)
    return "most are activations; give --recompute full, or a --micro-batch below " + std::to_string(config.micro_batch);
  return "no zero stage fits with --dp " + std::to_string(config.mesh.dp) + "; share the model out over more ranks (--dp, --pp, --tp)";
}

}  // namespace

void check_memory_limit(const TrainConfig& config, std::int64_t limit) {
  const Need need = largest_need(config);
  const MemoryEstimate& m = need.memory;
  if (m.total() <= limit) return;
  throw UsageError("rank " + std::to_string(need.rank) + " needs " + mib(m.total()) + " MiB, more than the limit of " + mib(limit) + ": weights " + mib(m.weights) + ", gradients " +
                   mib(m.gradients) + ", optimizer " + mib(m.optimizer) + ", activations " + mib(m.activations) + ", workspace " + mib(m.workspace) + ", codecs " + mib(m.codecs) + "; " +
                   mend(config, need, limit));
}

}  // namespace thinwire
