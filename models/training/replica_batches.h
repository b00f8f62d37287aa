// A replica's share of a global batch.
#pragma once

#include <vector>

#include "collectives/communicator/process_mesh.h"
#include "models/data/dataset.h"
#include "models/training/config/train_config.h"

namespace thinwire {

/// The micro-batches of the replica at `at`, of a step's global batch. RuntimeFailure where nothing in that has a label.
std::vector<Batch> replica_batches(const TrainConfig& config, const MeshCoordinates& at, const Dataset& data, std::uint64_t step);

}  // namespace thinwire
