// BERT's input (Devlin et al. 2018, arXiv 1810.04805, section 3):
//   y = dropout(layernorm(token[t] + position[p] + type[s])),  the norm in the post-layernorm form alone
// The token table is the caller's, as in models/layers/embedding.h: the head of a masked language model multiplies by it.
#pragma once

#include <optional>

#include "models/bert/bert_config.h"
#include "models/layers/embedding.h"

namespace thinwire {

template <typename T>
class BertEmbedding {
 public:
  struct Saved {
    typename LayerNorm<T>::Saved norm;
    Tensor sum;  ///< [own rows, hidden] the norm's input
  };

  BertEmbedding(const BertConfig& config, const LayerRuntime<T>& runtime);
  /// tokens and types [rows]; types null where the model has no table of them. y [own rows, hidden].
  void forward(const PassContext& pass, const std::int32_t* tokens, const std::int32_t* types, const Parameter<T>& table, Saved& saved, T* y);
  /// d [own rows, hidden]: gradient of y, which is lost. Adds to the tables' gradients.
  void backward(const PassContext& pass, const std::int32_t* tokens, const std::int32_t* types, Parameter<T>& table, const Saved& saved, T* d);
  /// All but the token table.
  void collect(ParameterList<T>& list);

  Embedding<T> words;
  std::optional<Parameter<T>> types;
  std::optional<LayerNorm<T>> norm;

 private:
  void drop(const PassContext& pass, T* x) const;
  BertConfig config_;
  TensorParallel<T>& tensor_;
  ComputeClock& clock_;
  Tensor looked_up_, gradient_;
};

}  // namespace thinwire
