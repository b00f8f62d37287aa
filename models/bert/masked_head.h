// Masked language model (Devlin et al. 2018, section 3.1, task 1; the head of Google's run_pretraining.py):
//   t = layernorm(gelu(dense(x)));  logits = t E^T + bias,  E the token table;  cross-entropy over the labelled positions
// Only labelled positions are multiplied by the table: with 15 % of them that is most of the head's work saved.
// Tensor parallelism splits table, bias and logits over the vocabulary; dense and norm are whole on every rank and act on its own rows.
#pragma once

#include <span>

#include "models/bert/bert_config.h"
#include "models/layers/embedding.h"

namespace thinwire {

template <typename T>
class MaskedHead {
 public:
  struct Saved {
    typename LayerNorm<T>::Saved norm;
    Tensor dense, activated, normed;       ///< [own rows, hidden], [own rows, hidden], [rows, hidden]
    Tensor selected, logits, losses;       ///< of the labelled positions; logits hold their gradient after the forward pass
    std::vector<std::int32_t> rows, labels;  ///< which they are, and their tokens
    double loss = 0;                       ///< mean over them, in nats; 0 where there are none
    double right = 0;                      ///< of them, those whose token has the largest logit; counted in evaluations
  };

  MaskedHead(const BertConfig& config, const LayerRuntime<T>& runtime);

  /// `labels` [rows]: -1 where nothing is asked. Once per pass, before forward().
  static void place(std::span<const std::int32_t> labels, Saved& saved);
  /// x [own rows, hidden]. The gradient of the logits is scaled by gradient_scale / labelled positions.
  void forward(const PassContext& pass, const T* x, const Parameter<T>& table, double gradient_scale, Saved& saved);
  /// Overwrites dx [own rows, hidden]; adds to the gradients of its own parameters and to the table's.
  void backward(const PassContext& pass, const T* x, Parameter<T>& table, Saved& saved, T* dx);
  /// All but the table.
  void collect(ParameterList<T>& list);

  Linear<T> dense;
  LayerNorm<T> norm;
  Parameter<T> bias;  ///< [padded vocabulary]

 private:
  void activate(std::int64_t count, const T* x, T* y) const;
  static void mean_loss(Saved& saved);
  void count_right(const PassContext& pass, const AxisRange& mine, Saved& saved);
  void split_loss(const PassContext& pass, const Parameter<T>& table, T scale, Saved& saved);
  BertConfig config_;
  int layer_;  ///< where the head stands in rules that name layers: with the last one
  TensorParallel<T>& tensor_;
  ComputeClock& clock_;
  Tensor own_, partial_, selected_gradient_, wide_, statistics_, all_statistics_, best_, all_best_;
};

}  // namespace thinwire
