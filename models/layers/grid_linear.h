// Linear, and the vectors of a layer, on a grid: each rank holds shards of weight and bias alone.
#pragma once

#include "models/layers/grid_product.h"

namespace thinwire {

/// A vector that acts on the columns of an activation, such as a bias or the scale of a layernorm. Column block c lies on one member of
/// the line across the rows, in 3-D cut once more along the weight axis: 1/(xyz) of the vector on the ranks of a diagonal, nothing on the
/// others. It travels exactly, as control.
template <typename T>
class GridVector {
 public:
  /// `swapped`: of the linear whose output it acts on.
  GridVector(TensorGrid<T>& grid, const std::string& name, int layer, std::int64_t extent, bool swapped);
  /// `whole` [columns of a shard] = this rank's block.
  void gather(const PassContext& pass, T* whole);
  /// Adds the sum over all rows, on all ranks, of `sums` [columns of a shard], which is overwritten, to the gradient of the parameter.
  void scatter_gradient(const PassContext& pass, T* sums);
  std::int64_t columns() const { return columns_; }

  Parameter<T> parameter;

 private:
  typename TensorGrid<T>::Message message(const PassContext& pass, int axis, const char* label) const;
  TensorGrid<T>& grid_;
  int layer_;
  VectorAxes axes_;
  int root_;
  bool mine_;
  std::int64_t columns_, piece_;
};

/// Y = X W + bias.
template <typename T>
class GridLinear {
 public:
  using Kept = typename GridProduct<T>::Kept;
  /// Weights are Normal(0, deviation) by global index, bias 0. Parameters are spec.tensor + ".weight" and ".bias".
  GridLinear(TensorGrid<T>& grid, const ProductSpec& spec, std::uint64_t seed, double deviation);
  void forward(const PassContext& pass, const T* x, T* y, Kept* kept);
  /// Adds to the gradients of weight and bias; dx is overwritten.
  void backward(const PassContext& pass, const T* x, const T* dy, T* dx, Kept* kept);
  void collect(ParameterList<T>& list) { list.insert(list.end(), {&weight, &bias.parameter}); }

  Parameter<T> weight;
  GridVector<T> bias;

 private:
  TensorGrid<T>& grid_;
  const ProductSpec spec_;
  std::unique_ptr<GridProduct<T>> product_;
  Tensor vector_;
};

/// Layer normalisation over the hidden axis, which the columns of the grid split: the two sums of each row are added exactly.
template <typename T>
class GridLayerNorm {
 public:
  struct Saved {
    Tensor mean, rstd;
  };
  GridLayerNorm(TensorGrid<T>& grid, const std::string& name, int layer, std::int64_t hidden);
  /// x, y: shards [own rows, own columns].
  void forward(const PassContext& pass, const T* x, T* y, Saved& saved);
  /// dx += gradient; gradients of scale and shift are added to. After the forward pass of the same weights.
  void backward_add(const PassContext& pass, const T* x, const T* dy, const Saved& saved, T* dx);
  void collect(ParameterList<T>& list) { list.insert(list.end(), {&gamma.parameter, &beta.parameter}); }

  GridVector<T> gamma, beta;

 private:
  std::int64_t rows(const PassContext& pass) const { return grid_.samples(pass.batch).count * pass.seq; }
  void add_rows(const PassContext& pass, const char* label, std::int64_t rows, T* sums);
  TensorGrid<T>& grid_;
  std::string name_;
  int layer_;
  std::int64_t hidden_;
  Tensor scale_, shift_;  ///< gathered
};

}  // namespace thinwire
