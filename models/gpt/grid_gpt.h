// The GPT of models/gpt/gpt.h on a grid of tensor-parallel ranks: the same parameters, by name and global index, the same dropout, the same
// loss; activations and parameters are shards. Whole, or the part of a pipeline stage.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "models/gpt/gpt.h"
#include "models/layers/grid_block.h"
#include "models/layers/grid_embedding.h"

namespace thinwire {

template <typename T>
class GridGpt final : public Stage<T> {
 public:
  using Saved = typename Stage<T>::Saved;
  struct Activations final : Saved {
    std::vector<typename GridBlock<T>::Saved> blocks;
    typename GridTiedHead<T>::Saved head;
    nn::PlacedTokens tokens, targets;
  };

  /// `grid` outlives the model. UsageError where the grid does not divide the model, and naming the nearest sizes that it does.
  GridGpt(const GptConfig& config, const ModelPart& part, TensorGrid<T>& grid, bool recompute = false);

  const ModelPart& part() const override { return part_; }
  StageTraits traits() const override { return {}; }
  const std::vector<Unit<T>>& units() const override { return units_; }
  const ParameterList<T>& parameters() const override { return parameters_; }
  Parameter<T>* tied_table() override { return token_ ? &*token_ : nullptr; }
  /// A shard of [rows, hidden].
  Shape boundary(const PassContext& pass) const override;
  std::unique_ptr<Saved> new_saved() const override { return std::make_unique<Activations>(); }
  /// Tokens and targets of the whole micro-batch on every rank.
  void place(const PassContext& pass, const Batch& batch, Saved& saved) const override;
  void forward_unit(std::size_t unit, double gradient_scale, Saved& saved) override;
  void backward_unit(std::size_t unit, Saved& saved, Tensor& gradient) override;
  Tensor& output(Saved& saved) const override;
  const Tensor& loss(const Saved& saved) const override { return static_cast<const Activations&>(saved).head.loss; }

  /// All units at once, and the loss (0 without the head).
  double forward(const PassContext& pass, const Batch& batch, double gradient_scale, Activations& saved);
  void backward(const Batch& batch, Activations& saved, Tensor& d);
  const GptConfig& config() const { return config_; }

 private:
  int block_of(std::size_t unit) const { return static_cast<int>(unit) - (part_.embedding ? 1 : 0); }
  const T* input_of(std::size_t block, const Activations& saved) const;
  void backward_head(Activations& saved, Tensor& gradient);
  void backward_block(std::size_t block, Activations& saved, T* d);
  void drop_embedded(const PassContext& pass, T* x);
  GptConfig config_;
  ModelPart part_;
  TensorGrid<T>& grid_;
  bool recompute_;
  std::optional<Parameter<T>> token_;
  std::optional<GridEmbedding<T>> embedding_;
  std::vector<std::unique_ptr<GridBlock<T>>> blocks_;
  std::optional<GridTiedHead<T>> head_;
  ParameterList<T> parameters_;
  std::vector<Unit<T>> units_;
  typename GridBlock<T>::Saved again_;  ///< activations of the block that is recomputed
};

}  // namespace thinwire
