// Y = X W + bias, with W [in, out]. One class for every place in the model and every tensor-parallel layout
// that multiplies locally: the layouts say which part of W is here; who calls adds up what must be summed over ranks.
#pragma once

#include <string>

#include "kernels/nn/gemm/gemm.h"
#include "models/layout/grid_layouts.h"
#include "models/layout/parameter.h"

namespace thinwire {

template <typename T>
class Linear {
 public:
  /// Weights are Normal(0, deviation) by global index, bias 0.
  Linear(const LinearLayouts& layouts, std::uint64_t seed, double deviation,
         nn::ComputeType compute = nn::ComputeType::f32);

  /// x [rows, in] -> y [rows, out] (local extents), bias included.
  void forward(std::int64_t rows, const T* x, T* y) const;
  /// Row-parallel: y is this rank's partial sum, without the bias, which is added once, after the sum over ranks.
  void partial(std::int64_t rows, const T* x, T* y) const;
  void add_bias(std::int64_t rows, T* y) const;
  /// Adds to the gradients of weight and bias; dx [rows, in] is overwritten.
  void backward(std::int64_t rows, const T* x, const T* dy, T* dx);
  // The three parts of the backward pass, for layers that communicate in between.
  void input_gradient(std::int64_t rows, const T* dy, T* dx) const;
  void weight_gradient(std::int64_t rows, const T* x, const T* dy);
  void bias_gradient(std::int64_t rows, const T* dy);

  std::int64_t in() const { return weight.layout.rows().count; }
  std::int64_t out() const { return weight.layout.columns().count; }
  void collect(ParameterList<T>& list) { list.insert(list.end(), {&weight, &bias}); }

  Parameter<T> weight, bias;

 private:
  nn::ComputeType compute_;
};

}  // namespace thinwire
