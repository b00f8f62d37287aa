// AdamW over a list of parameters or of parts of them, with global-norm clipping that counts every element once. Moments are kept for what is
// listed alone.
#pragma once

#include <vector>

#include "kernels/nn/optimizer.h"
#include "models/layout/parameter.h"

namespace thinwire {

/// What one rank updates of a parameter: weights and their gradient, of one shape.
template <typename T>
struct OptimizerPart {
  Parameter<T>* parameter = nullptr;
  TensorView weights, gradient;
  bool counts = true;  ///< whether this rank adds these elements to the global norm
};

template <typename T>
class Optimizer {
 public:
  Optimizer(std::vector<OptimizerPart<T>> parts, const nn::AdamW& options);
  /// Whole parameters, as on one device.
  Optimizer(const ParameterList<T>& parameters, const nn::AdamW& options);

  /// *sum (f64, where the thread computes) += this rank's share of the squared global L2 norm of the gradients.
  void add_sum_of_squares(double* sum) const;
  /// The share alone; waits for a device.
  double sum_of_squares() const;
  /// sqrt of it, on one device.
  double gradient_norm() const;
  /// Updates with gradients times `scale`.
  void apply(double learning_rate, double scale);
  /// One device: clips to max_norm and applies; returns the norm before. RuntimeFailure naming the first parameter whose gradient
  /// is not finite.
  double step(double learning_rate, double max_norm);
  /// RuntimeFailure naming the first parameter here whose gradient is not finite; returns when all are.
  void check_finite() const;

  std::int64_t steps_taken() const { return steps_; }
  /// Of a run that goes on: the next update is number `steps`, from 0. Moments were zero before update number `moments_begin`: the bias correction
  /// counts from there.
  void set_steps_taken(std::int64_t steps, std::int64_t moments_begin = 0) { steps_ = steps, moments_begin_ = moments_begin; }
  const std::vector<OptimizerPart<T>>& parts() const { return parts_; }
  /// Moments of part i, of its weights' shape.
  Tensor& first_moment(std::size_t i) { return first_[i]; }
  Tensor& second_moment(std::size_t i) { return second_[i]; }

 private:
  std::vector<OptimizerPart<T>> parts_;
  nn::AdamW options_;
  std::vector<Tensor> first_, second_;
  std::int64_t steps_ = 0, moments_begin_ = 0;
};

}  // namespace thinwire
