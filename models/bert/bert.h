// BERT (Devlin et al. 2018, arXiv 1810.04805) as a stage of units: embedding, encoder blocks that see padded sequences in both directions, and the
// head of its task; whole, or the part that a pipeline stage holds. Host only.
// Fields of its batches: "tokens" and, where the model has token types, "types" [batch, seq]; Batch::lengths (empty: no padding); by task
// "masked_labels" [batch, seq], -1 where nothing is asked, and "labels" [batch]: classes (-1: none), or numbers for regression (NaN: none).
// Batch::weight counts the labelled positions of a masked language model, else the labelled samples. Pretraining adds to the mean over positions the mean over
// samples, each over the whole global batch.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/nn/device/placed_tokens.h"
#include "models/bert/bert_embedding.h"
#include "models/bert/masked_head.h"
#include "models/bert/sequence_head.h"
#include "models/stage/model_kind.h"
#include "models/stage/stage.h"

namespace thinwire {

template <typename T>
class Bert final : public Stage<T> {
 public:
  using Saved = typename Stage<T>::Saved;
  struct Activations final : Saved {
    typename BertEmbedding<T>::Saved embedded;
    std::vector<typename Block<T>::Saved> blocks;
    typename LayerNorm<T>::Saved norm;
    Tensor normed;  ///< what the heads see, where a norm stands in front of them
    typename MaskedHead<T>::Saved masked;
    typename SequenceHead<T>::Saved sequence;
    const std::int32_t *tokens = nullptr, *types = nullptr, *lengths = nullptr;  ///< those of the batch
    Tensor loss{{1}, DType::f64}, measured{{2, 2}, DType::f64};
  };

  Bert(const BertConfig& config, const ModelPart& part, const StageRuntime<T>& runtime);

  const ModelPart& part() const override { return part_; }
  StageTraits traits() const override { return {}; }
  const std::vector<Unit<T>>& units() const override { return units_; }
  const ParameterList<T>& parameters() const override { return parameters_; }
  /// Null where no head multiplies by the table: then one position alone holds it.
  Parameter<T>* tied_table() override { return token_ && config_.masks() ? &*token_ : nullptr; }
  Shape boundary(const PassContext& pass) const override { return {runtime_.tensor->own_rows(pass.rows()).count, config_.hidden}; }
  std::unique_ptr<Saved> new_saved() const override { return std::make_unique<Activations>(); }
  void place(const PassContext& pass, const Batch& batch, Saved& saved) const override;
  void forward_unit(std::size_t unit, double gradient_scale, Saved& saved) override;
  void backward_unit(std::size_t unit, Saved& saved, Tensor& gradient) override;
  Tensor& output(Saved& saved) const override;
  const Tensor& loss(const Saved& saved) const override { return static_cast<const Activations&>(saved).loss; }
  std::vector<std::string> metrics() const override;
  const Tensor& measured(const Saved& saved) const override { return static_cast<const Activations&>(saved).measured; }
  std::span<const double> predicted(const Saved& saved) const override;

  const BertConfig& config() const { return config_; }

 private:
  /// Block that a unit is: -1 the embedding, number of blocks the head.
  int block_of(std::size_t unit) const { return static_cast<int>(unit) - (part_.embedding ? 1 : 0); }
  const T* input_of(std::size_t block, const Activations& saved) const;
  void place_labels(const Batch& batch, const PassContext& pass, Activations& saved) const;
  void forward_block(std::size_t block, Activations& saved);
  void backward_block(std::size_t block, Activations& saved, T* d);
  void forward_head(double gradient_scale, Activations& saved);
  void backward_head(Activations& saved, T* d);

  BertConfig config_;
  ModelPart part_;
  LayerRuntime<T> runtime_;
  bool recompute_;
  std::optional<Parameter<T>> token_;
  std::optional<BertEmbedding<T>> embedding_;
  std::vector<std::unique_ptr<Block<T>>> blocks_;
  std::optional<LayerNorm<T>> norm_;  ///< in front of the heads, pre-layernorm
  std::optional<MaskedHead<T>> masked_;
  std::optional<SequenceHead<T>> sequence_;
  ParameterList<T> parameters_;
  std::vector<Unit<T>> units_;
  typename Block<T>::Workspace work_;
  typename Block<T>::Saved again_;  ///< activations of the block that is recomputed
  Tensor normed_gradient_;
};

}  // namespace thinwire
