// Layer normalisation with learned scale and shift. Asks its layout whether the hidden axis is split: then
// the two row sums are added over the group between the halves of the kernel.
#pragma once

#include <string>

#include "kernels/nn/layernorm.h"
#include "models/layout/parameter.h"

namespace thinwire {

template <typename T>
class LayerNorm {
 public:
  /// What the backward pass needs, per micro-batch.
  struct Saved {
    Tensor mean, rstd;
  };
  /// `replicas`: ranks that hold equal copies of scale and shift.
  LayerNorm(const std::string& name, std::int64_t hidden, const Layout& layout, const SplitGroups& replicas = {}, double epsilon = nn::layernorm_epsilon);

  /// x, y: [rows, local hidden].
  void forward(std::int64_t rows, const T* x, T* y, Saved& saved);
  /// dx += gradient (the residual branch already holds its part); gradients of scale and shift are added to.
  void backward_add(std::int64_t rows, const T* x, const T* dy, const Saved& saved, T* dx) { run_backward(rows, x, dy, saved, true, dx); }
  /// dx = gradient, where there is no branch around the norm; dx is not dy.
  void backward(std::int64_t rows, const T* x, const T* dy, const Saved& saved, T* dx) { run_backward(rows, x, dy, saved, false, dx); }
  void collect(ParameterList<T>& list) { list.insert(list.end(), {&gamma, &beta}); }

  Parameter<T> gamma, beta;
  GroupSum<T> sum_over_hidden;  ///< required when the layout splits the hidden axis

 private:
  void reduce(Tensor& sums);
  void run_backward(std::int64_t rows, const T* x, const T* dy, const Saved& saved, bool accumulate, T* dx);
  std::int64_t hidden_;
  Layout layout_;
  double epsilon_;
  Tensor sums_;
};

}  // namespace thinwire
