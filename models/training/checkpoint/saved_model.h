// What a checkpoint says of its model, for whoever wants the weights and no training: one process reads them, whatever ranks wrote them.
#pragma once

#include <cstdint>
#include <string>

#include "models/stage/stage.h"
#include "models/training/config/train_config.h"

namespace thinwire {

struct SavedModel {
  TrainConfig config;  ///< of the run that wrote it, but for the folder that it began with (--from)
  std::int64_t steps = 0;
};
/// Errors as of load_checkpoint.
SavedModel saved_model(const std::string& path);

/// Fills the parameters of a whole model of the same sizes, on one rank: in full precision, where the file has more than was sent. CorruptData where the file
/// lacks one, or has it in another size; errors as of load_checkpoint.
template <typename T>
void load_weights(const std::string& path, Stage<T>& model);

}  // namespace thinwire
