// One Transformer block on a grid: the block of models/layers/block.h, its linears in pairs so that no tensor changes its layout between
// them (3-D: the second of each pair is swapped). Residual stream and layernorms see one layout; the attention core and GELU work on what
// lies behind the first linear, whole sequences and whole heads, without communication.
#pragma once

#include "models/layers/block.h"
#include "models/layers/grid_linear.h"

namespace thinwire {

/// gelu between two linears, h -> 4h -> h.
template <typename T>
class GridMlp {
 public:
  struct Saved {
    Tensor expanded;
    typename GridProduct<T>::Kept kept_expand, kept_project;
  };
  GridMlp(TensorGrid<T>& grid, int layer, const BlockConfig& config);
  /// x, y: shards of [rows, hidden].
  void forward(const PassContext& pass, const T* x, T* y, Saved& saved);
  /// dx is overwritten.
  void backward(const PassContext& pass, const T* x, const T* dy, T* dx, Saved& saved);
  void collect(ParameterList<T>& list);

  GridLinear<T> expand, project;

 private:
  std::int64_t wide(const PassContext& pass) const;
  TensorGrid<T>& grid_;
  int layer_;
  std::int64_t hidden_;
};

/// Causal self-attention between its two linears.
template <typename T>
class GridAttention {
 public:
  struct Saved {
    Tensor qkv, context, log_sum_exp;
    typename GridProduct<T>::Kept kept_qkv, kept_project;
  };
  GridAttention(TensorGrid<T>& grid, int layer, const BlockConfig& config);
  void forward(const PassContext& pass, const T* x, T* y, Saved& saved);
  void backward(const PassContext& pass, const T* x, const T* dy, T* dx, Saved& saved);
  void collect(ParameterList<T>& list);

  GridLinear<T> qkv, project;

 private:
  TensorGrid<T>& grid_;
  int layer_;
  std::int64_t hidden_, heads_;
  nn::ComputeType compute_;
};

template <typename T>
class GridBlock {
 public:
  /// What the backward pass needs of one micro-batch. `output` is the next block's input.
  struct Saved {
    typename GridLayerNorm<T>::Saved norm1, norm2;
    typename GridAttention<T>::Saved attention;
    typename GridMlp<T>::Saved mlp;
    Tensor normed1, middle, normed2, output;
  };
  GridBlock(TensorGrid<T>& grid, int index, const BlockConfig& config);
  /// x: shard of [rows, hidden]; saved.output likewise.
  void forward(const PassContext& pass, const T* x, Saved& saved);
  /// d: on entry the gradient of the output, on return of the input.
  void backward(const PassContext& pass, const T* x, Saved& saved, T* d);
  void collect(ParameterList<T>& list);
  int index() const { return index_; }

  GridLayerNorm<T> norm1, norm2;
  GridAttention<T> attention;
  GridMlp<T> mlp;

 private:
  TensorGrid<T>& grid_;
  int index_;
  std::string name_;
  BlockConfig config_;
};

/// Drops elements of a shard [rows, hidden] by their place in the whole tensor; y may be x.
template <typename T>
void grid_dropout(TensorGrid<T>& grid, const PassContext& pass, std::int64_t hidden, double rate, std::uint64_t seed, const std::string& name,
                  const T* x, T* y);

}  // namespace thinwire
