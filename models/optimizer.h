// AdamW over a list of parameters, with global-norm clipping that counts every element once.
#pragma once

#include <vector>

#include "kernels/nn/optimizer.h"
#include "models/parameter.h"

namespace thinwire {

template <typename T>
class Optimizer {
 public:
  Optimizer(const ParameterList<T>& parameters, const nn::AdamW& options);

  /// Global L2 norm of all gradients: each element counted on one member of its replication group.
  /// `sum_over_ranks` adds the square over the ranks that hold different elements; empty on one device.
  double gradient_norm(const GroupSum<double>& sum_over_ranks = {}) const;
  /// One step with gradients scaled down to max_norm; returns the norm before. RuntimeFailure naming the
  /// first parameter whose gradient is not finite.
  double step(double learning_rate, double max_norm);
  std::int64_t steps_taken() const { return steps_; }

 private:
  ParameterList<T> parameters_;
  nn::AdamW options_;
  std::vector<Tensor> first_, second_;
  std::int64_t steps_ = 0;
};

}  // namespace thinwire
