// Memory of one rank of a 2-D, 2.5-D or 3-D grid: the part of estimate_memory that differs from 1-D.
#pragma once

#include "models/layout/grid_shape.h"
#include "models/training/parallel_trainer.h"

namespace thinwire {

/// As estimate_memory, for c.tensor_parallel other than 1d. `live`: micro-batches of a chunk whose activations are alive at once on this
/// stage, summed over its chunks. Buffers of codecs are not counted.
MemoryEstimate estimate_grid_memory(const TrainConfig& c, const MeshCoordinates& at, std::int64_t live);

}  // namespace thinwire
