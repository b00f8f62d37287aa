// Y = X W + bias, with W [in, out]. One class for every place in the model and every tensor-parallel layout
// that multiplies locally: the layouts say which part of W is here, the group sums what must be added up.
#pragma once

#include <string>

#include "kernels/nn/gemm.h"
#include "models/grid_layouts.h"
#include "models/parameter.h"

namespace thinwire {

template <typename T>
class Linear {
 public:
  /// Weights are Normal(0, deviation) by global index, bias 0.
  Linear(const LinearLayouts& layouts, std::uint64_t seed, double deviation,
         nn::ComputeType compute = nn::ComputeType::f32);

  /// x [rows, in] -> y [rows, out] (local extents).
  void forward(std::int64_t rows, const T* x, T* y);
  /// Adds to the gradients of weight and bias; dx [rows, in] is overwritten.
  void backward(std::int64_t rows, const T* x, const T* dy, T* dx);

  std::int64_t in() const { return weight.layout.rows().count; }
  std::int64_t out() const { return weight.layout.columns().count; }
  void collect(ParameterList<T>& list) { list.insert(list.end(), {&weight, &bias}); }

  Parameter<T> weight, bias;
  GroupSum<T> sum_output;          ///< row-parallel: the local product is a partial sum
  GroupSum<T> sum_input_gradient;  ///< column-parallel: dx is a partial sum

 private:
  nn::ComputeType compute_;
};

}  // namespace thinwire
