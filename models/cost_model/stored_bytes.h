// What parameters take on a rank, as the parameter store and the optimizer of a run say.
#pragma once

#include "models/training/config/train_config.h"

namespace thinwire {

struct StoredBytes {
  std::int64_t weights = 0, gradients = 0;
  std::int64_t optimizer = 0;  ///< its state, and what the store keeps besides values and gradients
};
/// Of a rank with so many elements of `size` bytes in matrices that a store may split over the ranks of a replica, `in_layers` of them in matrices of layers, and `whole` others.
StoredBytes stored_bytes(const TrainConfig& config, std::int64_t split, std::int64_t in_layers, std::int64_t whole, std::int64_t size);

}  // namespace thinwire
