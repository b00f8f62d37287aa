// Token and position embedding, and the head that is tied to the token table. In a pipeline the first stage
// looks tokens up and the last stage multiplies by the same table, so the two gradients arise in different
// places: the head keeps its own, and adding them is the "embedding" traffic of the suite.
// Tensor parallelism splits the table's rows, the vocabulary, over the group (Megatron-LM); it is padded so that it divides.
#pragma once

#include <cstdint>

#include "models/layers/block.h"

namespace thinwire {

/// Vocabulary padded to a multiple of 8 x ranks where several ranks split it. Padded rows are never looked up and have no
/// share in the softmax.
std::int64_t padded_vocabulary(std::int64_t vocab, int ranks);

/// Normal(0, 0.02), and 0 in the rows of the padding, which is no part of a checkpoint: a codec that sees it together with rows of the
/// vocabulary must see the same after a restart.
RowInitialiser token_rows(std::uint64_t seed);

/// The token table [padded vocab, hidden], of which a rank of the tensor group holds a block of rows. `copies`: ranks of other
/// stages that hold it too.
template <typename T>
Parameter<T> token_table(std::int64_t vocab, std::int64_t hidden, std::uint64_t seed, const TensorParallel<T>& tensor,
                         const SplitGroups& copies = {}, const std::string& name = "embedding.token");

template <typename T>
class Embedding {
 public:
  /// Positions begin as Normal(0, position_deviation). By default near 0: at the tokens' scale they would be half of the first layernorm's input,
  /// and short trainings spend their first hundred steps on getting rid of that noise.
  Embedding(std::int64_t vocab, std::int64_t max_seq, std::int64_t hidden, std::uint64_t seed, const LayerRuntime<T>& runtime,
            double position_deviation = 0.002);
  /// tokens [rows] (placed, as all tokens and targets of layers), row r at position first_token + r % seq -> y [own rows, hidden].
  void forward(const PassContext& pass, const std::int32_t* tokens, const Parameter<T>& table, T* y);
  /// dy [own rows, hidden]. Adds to the gradient of the positions and to `token_gradient` [local vocab, hidden], usually table.g().
  void backward(const PassContext& pass, const std::int32_t* tokens, const Parameter<T>& table, const T* dy, T* token_gradient);

  Parameter<T> position;

 private:
  std::int64_t vocab_, hidden_;
  TensorParallel<T>& tensor_;
  ComputeClock& clock_;
  Tensor all_;
};

/// Final layernorm, logits = x E^T with the token table E, softmax cross-entropy.
template <typename T>
class TiedHead {
 public:
  struct Saved {
    typename LayerNorm<T>::Saved norm;
    Tensor normed, logits, losses;  ///< logits hold their gradient after forward
    Tensor loss;                    ///< f64 [1]: mean over the rows, in nats
  };
  /// `compute`: of the products on a device. The host multiplies logits in f32 whatever the other products do.
  TiedHead(std::int64_t vocab, std::int64_t hidden, int layers, const LayerRuntime<T>& runtime, nn::ComputeType compute = nn::ComputeType::f32);

  /// x [own rows, hidden], targets [rows]. Leaves the loss in `saved`. The gradient of logits is scaled by gradient_scale / rows.
  void forward(const PassContext& pass, const T* x, const Parameter<T>& table, const std::int32_t* targets, double gradient_scale,
               Saved& saved);
  /// Overwrites dx [own rows, hidden] with the gradient of x; table_gradient [local vocab, hidden] is overwritten.
  void backward(const PassContext& pass, const T* x, const Parameter<T>& table, const Saved& saved, Tensor& scratch, T* dx);
  void collect(ParameterList<T>& list) { norm.collect(list); }

  LayerNorm<T> norm;
  Tensor table_gradient;  ///< of the last use, from the latest micro-batch

 private:
  void split_loss(const PassContext& pass, const Parameter<T>& table, const std::int32_t* targets, T gradient_scale, Saved& saved);
  void mean_loss(std::int64_t rows, const T* losses, Saved& saved);
  std::int64_t vocab_, hidden_;
  int layer_;  ///< where the head stands in rules that name layers: with the last one
  nn::ComputeType compute_;
  TensorParallel<T>& tensor_;
  ComputeClock& clock_;
  Tensor own_, statistics_, all_statistics_;
};

}  // namespace thinwire
