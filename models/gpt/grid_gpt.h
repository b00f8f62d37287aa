// The GPT of models/gpt/gpt.h on a grid of tensor-parallel ranks: the same parameters, by name and global index, the same dropout, the same
// loss; activations and parameters are shards. Whole, or the part of a pipeline stage.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "models/gpt/gpt.h"
#include "models/layers/grid_block.h"
#include "models/layers/grid_embedding.h"

namespace thinwire {

template <typename T>
class GridGpt {
 public:
  struct Activations {
    Tensor input;  ///< shard of [rows, hidden] of the first block
    std::vector<typename GridBlock<T>::Saved> blocks;
    typename GridTiedHead<T>::Saved head;
    PassContext pass;
    nn::PlacedTokens tokens, targets;
  };
  using LayerDone = std::function<void(int layer)>;

  /// `grid` outlives the model. UsageError where the grid does not divide the model, and naming the nearest sizes that it does.
  GridGpt(const GptConfig& config, const GptPart& part, TensorGrid<T>& grid, bool recompute = false);
  GridGpt(const GridGpt&) = delete;
  GridGpt& operator=(const GridGpt&) = delete;

  /// As of Gpt<T>; tokens and targets of the whole micro-batch on every rank, `d` a shard.
  void run_forward(const PassContext& pass, const TokenBatch& batch, double gradient_scale, Activations& saved);
  double forward(const PassContext& pass, const TokenBatch& batch, double gradient_scale, Activations& saved);
  void backward(const TokenBatch& batch, Activations& saved, Tensor& d, const LayerDone& layer_done = {});

  Tensor& output(Activations& saved) const { return blocks_.empty() ? saved.input : saved.blocks.back().output; }
  const ParameterList<T>& parameters() { return parameters_; }
  const std::vector<int>& layers_of_parameters() const { return layers_; }
  Parameter<T>* token() { return token_ ? &*token_ : nullptr; }
  void zero_gradients();
  const GptConfig& config() const { return config_; }
  const GptPart& part() const { return part_; }
  /// Shape of a boundary tensor of this rank.
  Shape boundary(const PassContext& pass) const;

 private:
  const T* input_of(std::size_t block, const Activations& saved) const;
  void drop_embedded(const PassContext& pass, T* x);
  GptConfig config_;
  GptPart part_;
  TensorGrid<T>& grid_;
  bool recompute_;
  std::optional<Parameter<T>> token_;
  std::optional<GridEmbedding<T>> embedding_;
  std::vector<std::unique_ptr<GridBlock<T>>> blocks_;
  std::optional<GridTiedHead<T>> head_;
  ParameterList<T> parameters_;
  std::vector<int> layers_;
  typename GridBlock<T>::Saved again_;  ///< activations of the block that is recomputed
};

}  // namespace thinwire
