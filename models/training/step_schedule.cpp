#include "models/training/step_schedule.h"

#include <map>

#include "models/stage/model_kind.h"
#include "models/store/parameter_store.h"
#include "models/update/update_policy.h"

namespace thinwire {

ModelPart part_at(const TrainConfig& config, int position) {
  const int positions = config.mesh.pp * config.virtual_stages;
  const int layers = static_cast<int>(config.model.layers) / positions;
  return {position * layers, layers, position == 0, position == positions - 1};
}

std::vector<Geometry> stage_geometries(const TrainConfig& config, const Schedule& schedule, int stage, const TensorSplit& split) {
  std::vector<Geometry> chunks;
  for (int chunk = 0; chunk < config.virtual_stages; ++chunk)
    chunks.push_back(model_geometry(config.model_kind, config.model, part_at(config, global_chunk(schedule, stage, chunk)), split));
  return chunks;
}

UnitCounts unit_counts(const TrainConfig& config, const Schedule& schedule) {
  UnitCounts counts(schedule.stage.size());
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (int chunk = 0; chunk < schedule.virtual_stages; ++chunk) {
      const ModelPart part = part_at(config, global_chunk(schedule, stage, chunk));
      counts[static_cast<std::size_t>(stage)].push_back(part.layers + (part.embedding ? 1 : 0) + (part.head ? 1 : 0));
    }
  return counts;
}

namespace {

/// What the parameter store needs to have gathered; with nobody to share with nothing.
LoweringOptions gathering(const TrainConfig& config) {
  const StoreInfo& store = store_info(config.zero_stage);
  LoweringOptions options;
  options.gathers = store.gathers && config.mesh.data().within_replica() > 1;
  const std::map<std::string, KeepGathered> named = {{"layer", KeepGathered::layer}, {"micro_batch", KeepGathered::micro_batch}, {"step", KeepGathered::step}};
  const KeepGathered automatic = config.mesh.pp > 1 ? KeepGathered::step : store.keep;
  options.keep = config.zero_keep == "auto" ? automatic : named.at(config.zero_keep);
  options.prefetch = config.zero_prefetch;
  return options;
}

ReduceWhen reducing(const TrainConfig& config) {
  if (config.mesh.dp == 1) return ReduceWhen::never;
  if (parse_update(config.optimizer).reduces_every_micro_batch()) return ReduceWhen::every;
  if (config.zero_reduce != "auto") return config.zero_reduce == "step" ? ReduceWhen::last : ReduceWhen::every;
  return config.mesh.pp > 1 ? ReduceWhen::last : store_info(config.zero_stage).reduce;
}

}  // namespace

Schedule training_schedule(const TrainConfig& config) {
  const Schedule schedule = pipeline_schedule(config);
  LoweringOptions options = gathering(config);
  options.reduce = reducing(config);
  options.reduce_inside = config.overlap;
  return lower(schedule, unit_counts(config, schedule), options);
}

Schedule evaluation_schedule(const TrainConfig& config) {
  const Schedule schedule = pipeline_schedule(config);
  LoweringOptions options = gathering(config);
  options.backward = false;
  return lower(schedule, unit_counts(config, schedule), options);
}

}  // namespace thinwire
