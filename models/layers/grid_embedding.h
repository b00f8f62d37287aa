// Token and position embedding, and the tied head with its cross-entropy, on a grid. The table [vocabulary, hidden] is the weight of a
// linear from the vocabulary to the hidden axis, swapped in 3-D: vocabulary block by the innermost split of the batch, hidden block by
// the split of the columns. The look-up works on all sequences of that line, for its own block, and scatters the sums to their owners.
#pragma once

#include "models/layers/embedding.h"
#include "models/layers/grid_linear.h"

namespace thinwire {

template <typename T>
Parameter<T> grid_token_table(TensorGrid<T>& grid, std::int64_t vocab, std::int64_t hidden, std::uint64_t seed, const SplitGroups& copies = {});

template <typename T>
class GridEmbedding {
 public:
  GridEmbedding(TensorGrid<T>& grid, std::int64_t vocab, std::int64_t max_seq, std::int64_t hidden, std::uint64_t seed);
  /// tokens [batch x seq] of the whole micro-batch, on every rank -> y, a shard of [batch x seq, hidden].
  void forward(const PassContext& pass, const std::int32_t* tokens, const Parameter<T>& table, T* y);
  /// Adds to the gradients of the positions and to `token_gradient`, a shard of the table's.
  void backward(const PassContext& pass, const std::int32_t* tokens, const Parameter<T>& table, const T* dy, T* token_gradient);

  Parameter<T> position;  ///< [max seq, own columns], equal on all ranks with these columns; gradients are summed over them

 private:
  TensorGrid<T>& grid_;
  std::int64_t vocab_, hidden_, max_seq_;
};

/// Final layernorm, logits = x E^T, softmax cross-entropy over the vocabulary, which the columns of the logits split.
template <typename T>
class GridTiedHead {
 public:
  struct Saved {
    typename GridLayerNorm<T>::Saved norm;
    typename GridProduct<T>::Kept kept;
    Tensor normed, logits;  ///< logits hold their gradient after forward
    Tensor loss;            ///< f64 [1]: mean over the micro-batch in nats, equal on all ranks
  };
  GridTiedHead(TensorGrid<T>& grid, std::int64_t vocab, std::int64_t hidden, int layers, nn::ComputeType compute = nn::ComputeType::f32);
  /// x: shard. targets [batch x seq] whole. Leaves the loss in `saved`. The gradient of the logits is scaled by gradient_scale / rows of
  /// the micro-batch.
  void forward(const PassContext& pass, const T* x, const Parameter<T>& table, const std::int32_t* targets, double gradient_scale, Saved& saved);
  /// Overwrites dx; table_gradient (a shard) is overwritten.
  void backward(const PassContext& pass, const T* x, const Parameter<T>& table, Saved& saved, T* dx);
  void collect(ParameterList<T>& list) { norm.collect(list); }

  GridLayerNorm<T> norm;
  Tensor table_gradient;

 private:
  TensorGrid<T>& grid_;
  std::int64_t vocab_, padded_, hidden_;
  int layer_;
  std::unique_ptr<GridProduct<T>> product_;
  Tensor loss_;  ///< within one call: of this rank's rows
};

}  // namespace thinwire
