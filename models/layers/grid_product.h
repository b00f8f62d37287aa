// Y = X W and Y = X W^T over a grid, with their gradients, each rank holding shards alone: SUMMA in 2-D and 2.5-D
// (product_2d.cpp), gathers and a reduce-scatter in 3-D (product_3d.cpp). docs/tensor-parallel.md has layouts, collectives and bytes.
#pragma once

#include <memory>

#include "models/layers/local_product.h"
#include "models/parallel/tensor/tensor_grid.h"

namespace thinwire {

/// Names under which the clock runs the three products of a place in the model (literals).
struct ProductSections {
  const char *forward = "forward", *input_gradient = "input gradient", *weight_gradient = "weight gradient";
};

/// Which product. The weight is W [in, out], or with `transposed` E [out, in] (the tied head: rows are the vocabulary).
struct ProductSpec {
  std::string tensor;  ///< names messages
  int layer = 0;       ///< in rules that name layers
  std::int64_t in = 0, out = 0;
  bool swapped = false;     ///< 3-D: input and output axes exchanged
  bool transposed = false;  ///< never together with WeightCut::columns
  ProductSections sections = {};
  nn::ComputeType compute = nn::ComputeType::f32;
  std::string weight_name = {};  ///< names messages of the weight where others send it, too (a tied table); empty: `tensor`
};

template <typename T>
class GridProduct {
 public:
  /// Gathered tensors of one use, where the grid's policy is to keep them (3-D).
  struct Kept {
    Tensor input, weight;
  };
  virtual ~GridProduct() = default;
  /// x: this rank's shard of [rows, in], y of [rows, out] (overwritten), w of the weight. `rows` = the micro-batch's, over all ranks.
  virtual void forward(const PassContext& pass, const T* x, const T* w, T* y, Kept* kept) = 0;
  /// From the shard dy: dx is overwritten, dw added to, summed over all ranks of the grid that hold rows.
  virtual void backward(const PassContext& pass, const T* x, const T* w, const T* dy, T* dx, T* dw, Kept* kept) = 0;
};

template <typename T>
std::unique_ptr<GridProduct<T>> make_product_2d(TensorGrid<T>& grid, const ProductSpec& spec);
template <typename T>
std::unique_ptr<GridProduct<T>> make_product_3d(TensorGrid<T>& grid, const ProductSpec& spec);
template <typename T>
std::unique_ptr<GridProduct<T>> make_product(TensorGrid<T>& grid, const ProductSpec& spec) {
  return grid.shape().kind == GridKind::three_d ? make_product_3d<T>(grid, spec) : make_product_2d<T>(grid, spec);
}

}  // namespace thinwire
