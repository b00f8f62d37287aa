// What error feedback and its like add to a rank's memory.
#pragma once

#include <vector>

#include "models/stage/geometry.h"
#include "models/training/config/train_config.h"

namespace thinwire {

/// Bytes that wrappers of the codecs of gradients keep between messages (kernels/codec/wrapper_memory.h), of a rank of pipeline stage `stage` with these chunks: residuals of the
/// matrices that a rule covers. What codecs themselves remember, and wrappers of other classes, is not counted.
std::int64_t remembered_bytes(const TrainConfig& config, int stage, const std::vector<Geometry>& chunks);

/// Elements of such a rank's matrices whose outer gradients are coded in every step: a rule covers them from
/// the first one on.
double coded_outer_gradients(const TrainConfig& config, int stage, const std::vector<Geometry>& chunks);

}  // namespace thinwire
