// A unit: parameters that are gathered and released together, and whose forward and backward pass is one step of a stage.
#pragma once

#include <string>
#include <vector>

#include "models/layout/parameter.h"

namespace thinwire {

template <typename T>
struct Unit {
  std::string name;  ///< "embedding", "layer3", "head"
  int layer = 0;     ///< as rules and sections count: -1 the embedding, 0 .. L-1 the layers, L the head
  /// What its passes read. A tied table is listed by both units that use it; its home is the first of them in the order of the forward pass,
  /// whose backward pass completes the gradient.
  ParameterList<T> parameters;
  /// Names of the tensors [rows, hidden] that its forward pass sums over the tensor ranks: a codec that is trained with the model has weights for each.
  std::vector<std::string> summed = {};
};

}  // namespace thinwire
