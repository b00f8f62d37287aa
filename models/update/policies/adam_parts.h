// What policies of Adam's kind have in common: the parts that they update, and their moments as state.
#pragma once

#include "models/optimizer/optimizer.h"
#include "models/training/config/train_config.h"
#include "models/update/update_policy.h"

namespace thinwire {

/// Of gradients that the data axis averages: whether its ranks share them out.
inline NormScope mean_gradient_scope(const TrainConfig& config) {
  return config.zero_stage > 0 && config.mesh.data().within_replica() > 1 ? NormScope::all : NormScope::model;
}

/// These parts, or all of the store. In a norm over the ranks of `scope` each element counts once.
template <typename T>
std::vector<OptimizerPart<T>> adam_parts(const UpdateContext<T>& c, const std::vector<OwnedPart<T>>& of, NormScope scope) {
  std::vector<OptimizerPart<T>> parts;
  const bool speaks = scope == NormScope::model || c.mesh.data_coordinates().within_replica == 0;  // for what is not shared out
  for (const OwnedPart<T>& part : of) parts.push_back({part.parameter, part.weights, part.gradient, part.parameter->layout.counts_in_norm() && (part.sharded || speaks)});
  return parts;
}
template <typename T>
std::vector<OptimizerPart<T>> adam_parts(const UpdateContext<T>& c, const std::vector<OwnedPart<T>>& of) {
  return adam_parts(c, of, mean_gradient_scope(c.config));
}
template <typename T>
std::vector<OptimizerPart<T>> adam_parts(const UpdateContext<T>& c) {
  return adam_parts(c, c.store.parts());
}

/// First and second moments of `parts`, which the optimizer was made of.
template <typename T>
std::vector<StateSlot> moment_slots(const std::vector<OwnedPart<T>>& parts, Optimizer<T>& optimizer, bool first_stage) {
  std::vector<StateSlot> slots;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    slots.push_back(slot_of(parts[i], "first_moment", optimizer.first_moment(i).view(), first_stage));
    slots.push_back(slot_of(parts[i], "second_moment", optimizer.second_moment(i).view(), first_stage));
  }
  return slots;
}

}  // namespace thinwire
