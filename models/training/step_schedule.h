// The instructions of a training step: the pipeline schedule of a configuration, lowered to the units of its model. What the executor runs is
// what the step model walks, the memory estimate counts and the predicted timeline shows.
#pragma once

#include <vector>

#include "models/parallel/schedule/lower.h"
#include "models/stage/geometry.h"
#include "models/stage/model_part.h"
#include "models/training/config/train_config.h"

namespace thinwire {

/// What the chunk at a position of the model holds, 0 .. stages x virtual stages - 1.
ModelPart part_at(const TrainConfig& config, int position);
/// The chunks of a pipeline stage in numbers, on one of the tensor ranks that split them. UsageError for a kind of model that declares none.
std::vector<Geometry> stage_geometries(const TrainConfig& config, const Schedule& schedule, int stage, const TensorSplit& split = {});
/// Units of every chunk: its layers, and embedding and head where it has them.
UnitCounts unit_counts(const TrainConfig& config, const Schedule& schedule);
/// UsageError for an impossible schedule.
Schedule training_schedule(const TrainConfig& config);
Schedule evaluation_schedule(const TrainConfig& config);

}  // namespace thinwire
