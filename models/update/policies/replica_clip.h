// Clipping where replicas send something else than gradients, so that no rank knows the norm of the mean
// gradient: each clips its own gradient g_r by its own norm, over its tensor ranks, to max_norm N^(1/2). Its
// share g_r / N of the mean then has at most a norm of max_norm N^(-1/2), and N independent shares of that
// norm add up to max_norm (docs/papers/gradient_compression.md, "Deep gradient compression").
#pragma once

#include "models/update/policies/adam_parts.h"

namespace thinwire {

template <typename T>
class ReplicaClip {
 public:
  /// Of the gradients of the store's parts. `clips` false: nothing is clipped, and norms are recorded.
  ReplicaClip(const UpdateContext<T>& context, bool clips);

  /// What UpdatePolicy::add_sum_of_squares adds, such that the root mean square of the replicas' norms is
  /// recorded.
  void add_sum_of_squares(double* sum) const;
  /// What this replica's gradient is to be multiplied by in step `step`, whose squares add_sum_of_squares has
  /// just added. Collective over its tensor ranks.
  double factor(std::int64_t step);

 private:
  double max_norm_;
  int replicas_;
  bool clips_;
  Channel& tensor_control_;
  std::vector<OptimizerPart<T>> parts_;
  mutable Tensor squares_;  ///< of this rank's elements
};

/// Flag `clip` of a policy that clips so.
ParameterSpec replica_clip_parameter();

}  // namespace thinwire
