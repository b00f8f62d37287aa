// Flat parameters of a rank (models/store/flat_layout.h) as the model declares them, without making it.
#pragma once

#include <optional>
#include <vector>

#include "models/stage/geometry.h"
#include "models/store/flat_layout.h"
#include "models/training/config/train_config.h"

namespace thinwire {

struct FlatSizes {
  std::vector<FlatParameter> parameters;
  std::vector<int> chunk_begins;  ///< their first units, of all chunks one behind the other
  bool table_apart = false;       ///< the tied table of a pipeline is no part of them
  int place(int chunk, int unit) const { return chunk_begins.at(static_cast<std::size_t>(chunk)) + unit; }
};

/// Empty where the run lays nothing out flat.
std::optional<FlatSizes> flat_sizes(const TrainConfig& config, const std::vector<Geometry>& chunks);

}  // namespace thinwire
