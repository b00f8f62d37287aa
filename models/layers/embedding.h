// Token and position embedding, and the head that is tied to the token table. In a pipeline the first stage
// looks tokens up and the last stage multiplies by the same table, so the two gradients arise in different
// places: the head keeps its own, and adding them is the "embedding" traffic of the suite.
#pragma once

#include <cstdint>

#include "models/layers/layernorm.h"
#include "models/parameter.h"

namespace thinwire {

template <typename T>
class Embedding {
 public:
  Embedding(std::int64_t vocab, std::int64_t max_seq, std::int64_t hidden, std::uint64_t seed);
  /// tokens [rows], row r at position r % seq -> y [rows, hidden].
  void forward(std::int64_t rows, std::int64_t seq, const std::int32_t* tokens, T* y) const;
  /// Adds to the gradient of the positions and to `token_gradient` [vocab, hidden], usually token.g().
  void backward(std::int64_t rows, std::int64_t seq, const std::int32_t* tokens, const T* dy,
                T* token_gradient);
  void collect(ParameterList<T>& list) { list.insert(list.end(), {&token, &position}); }

  Parameter<T> token, position;
};

/// Final layernorm, logits = x E^T with the token table E, softmax cross-entropy.
template <typename T>
class TiedHead {
 public:
  struct Saved {
    typename LayerNorm<T>::Saved norm;
    Tensor normed, logits, losses;  ///< logits hold their gradient after forward
  };
  TiedHead(std::int64_t vocab, std::int64_t hidden, const Layout& layout);

  /// Mean loss over the rows, in nats. The gradient of logits is scaled by gradient_scale / rows.
  double forward(std::int64_t rows, const T* x, const T* table, const std::int32_t* targets,
                 double gradient_scale, Saved& saved);
  /// Overwrites dx [rows, hidden] with the gradient of x; table_gradient [vocab, hidden] is overwritten.
  void backward(std::int64_t rows, const T* x, const T* table, const Saved& saved, Tensor& scratch, T* dx);
  void collect(ParameterList<T>& list) { norm.collect(list); }

  LayerNorm<T> norm;
  Tensor table_gradient;  ///< of the last use, from the latest micro-batch

 private:
  std::int64_t vocab_, hidden_;
};

}  // namespace thinwire
