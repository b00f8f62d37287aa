// What a GPT is in numbers (models/stage/geometry.h), whole and split over tensor ranks in 1, 2, 2.5 and 3 dimensions.
#pragma once

#include "models/stage/geometry.h"
#include "models/stage/model_config.h"
#include "models/stage/model_part.h"

namespace thinwire {

struct GptConfig;

/// UsageError where the split does not divide the model.
Geometry gpt_geometry(const GptConfig& config, const ModelPart& part, const TensorSplit& split);

/// Of a split other than 1-D. `part`: its number of layers is known.
PassMemory grid_gpt_memory(const ModelConfig& config, const ModelPart& part, const TensorSplit& split, const PassShape& pass);

}  // namespace thinwire
