// What optimizers that treat weights as matrices take: the matrices of layers. Embeddings, a head and vectors
// go by AdamW, at the same learning rate.
#pragma once

#include <cmath>

#include "models/store/owned_part.h"
#include "models/training/config/train_config.h"
#include "models/update/policies/adam_parts.h"

namespace thinwire {

template <typename T>
bool is_layer_matrix(const OwnedPart<T>& part, const TrainConfig& config) {
  const Shape& global = part.parameter->layout.global();
  return part.unit >= 0 && part.unit < config.model.layers && global.rank() == 2 && global.rows() > 1;
}

/// The store's parts by who moves them, each in the store's order.
template <typename T>
struct PartsByKind {
  std::vector<OwnedPart<T>> matrices, rest;
  PartsByKind(const ParameterStore<T>& store, const TrainConfig& config) {
    for (const OwnedPart<T>& part : store.parts())
      (is_layer_matrix(part, config) ? matrices : rest).push_back(part);
  }
};

/// sqrt(out / in) of a weight [in, out]: an update whose singular values are 1 then changes what goes out by
/// as much for every shape.
inline double shape_factor(const ParameterLayout& layout) {
  return std::sqrt(static_cast<double>(layout.global().columns()) /
                   static_cast<double>(layout.global().rows()));
}

}  // namespace thinwire
