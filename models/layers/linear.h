// Y = X W + bias, with W [in, out]. One class for every place in the model and every tensor-parallel layout
// that multiplies locally: the layouts say which part of W is here; who calls adds up what must be summed over ranks.
#pragma once

#include <string>

#include "kernels/nn/gemm/gemm.h"
#include "models/layout/grid_layouts.h"
#include "models/layout/parameter.h"

namespace thinwire {

/// Rows that a linear multiplies: in T, or rounded to bf16 before (then `values` may be null). A pointer to T is one.
template <typename T>
struct Operand {
  Operand(const T* in_t) : values(in_t) {}  // NOLINT(google-explicit-constructor): most callers have nothing else
  explicit Operand(const BFloat16* in_bf16) : rounded(in_bf16) {}
  const T* values = nullptr;
  const BFloat16* rounded = nullptr;
};

template <typename T>
class Linear {
 public:
  /// Weights are Normal(0, deviation) by global index, bias 0.
  Linear(const LinearLayouts& layouts, std::uint64_t seed, double deviation,
         nn::ComputeType compute = nn::ComputeType::f32);

  /// x [rows, in] -> y [rows, out] (local extents), bias included.
  void forward(std::int64_t rows, Operand<T> x, T* y) const;
  /// The same, rounded to bf16 after the bias. Only where rounds() says so.
  void forward(std::int64_t rows, Operand<T> x, BFloat16* y) const;
  /// Row-parallel: y is this rank's partial sum, without the bias, which is added once, after the sum over ranks.
  void partial(std::int64_t rows, Operand<T> x, T* y) const;
  void add_bias(std::int64_t rows, T* y) const;
  /// Adds to the gradients of weight and bias; dx [rows, in] is overwritten.
  void backward(std::int64_t rows, Operand<T> x, const T* dy, T* dx);
  // The three parts of the backward pass, for layers that communicate in between.
  void input_gradient(std::int64_t rows, Operand<T> dy, T* dx) const;
  void weight_gradient(std::int64_t rows, Operand<T> x, Operand<T> dy);
  void bias_gradient(std::int64_t rows, const T* dy);

  /// Whether products round their operands to bf16, so that who keeps one may keep it rounded: on the host. (A device rounds into its workspace.)
  bool rounds() const;

  std::int64_t in() const { return weight.layout.rows().count; }
  std::int64_t out() const { return weight.layout.columns().count; }
  void collect(ParameterList<T>& list) { list.insert(list.end(), {&weight, &bias}); }

  Parameter<T> weight, bias;

 private:
  nn::ComputeType compute_;
};

}  // namespace thinwire
