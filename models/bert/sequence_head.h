// What BERT says of a whole sequence, from its first position (Devlin et al. 2018, section 3.1, task 2, and section 4):
//   p = tanh(pooler(x[first]));  z = classifier(dropout(p))
//   classes: cross-entropy of z;  regression: (z - y)^2
// Dropout acts in fine-tuning alone, as in Google's run_classifier.py and run_pretraining.py.
// Tensor parallelism splits the pooled vector: pooler by columns, classifier by rows; every rank adds up the logits of all in rank order.
#pragma once

#include <span>

#include "models/bert/bert_config.h"

namespace thinwire {

/// Labels of the samples of a pass: classes (-1: none), or numbers (NaN: none).
struct SequenceLabels {
  std::span<const std::int32_t> classes;
  std::span<const float> numbers;
};

template <typename T>
class SequenceHead {
 public:
  struct Saved {
    SequenceLabels labels;  ///< those of the batch, which lives as long
    double divisor = 1;     ///< of the sum over labelled samples
    Tensor states;          ///< [rows, hidden], where the own rows are not all
    Tensor first, pooled, dropped, logits;  ///< [batch, hidden], [batch, hidden / ranks] twice, [batch, outputs]: their gradient after the forward pass
    double loss = 0;                        ///< sum / divisor
    double right = 0, labelled = 0;         ///< samples
    std::vector<double> predicted;          ///< [batch] class or number, labelled or not; NaN where a logit is not finite
  };

  SequenceHead(const BertConfig& config, const LayerRuntime<T>& runtime);
  /// x [own rows, hidden]. The gradient is scaled by gradient_scale / divisor.
  void forward(const PassContext& pass, const T* x, double gradient_scale, Saved& saved);
  /// Adds to dx [own rows, hidden] and to the gradients of its parameters.
  void backward(const PassContext& pass, Saved& saved, T* dx);
  void collect(ParameterList<T>& list) { pooler.collect(list), classifier.collect(list); }

  Linear<T> pooler, classifier;

 private:
  void drop(const PassContext& pass, T* x) const;
  void class_loss(double gradient_scale, std::int64_t batch, Saved& saved) const;
  void number_loss(double gradient_scale, std::int64_t batch, Saved& saved) const;
  BertConfig config_;
  int layer_;
  TensorParallel<T>& tensor_;
  ComputeClock& clock_;
  Tensor partial_logits_, all_logits_, pooled_gradient_, first_gradient_, partial_, own_;
};

}  // namespace thinwire
