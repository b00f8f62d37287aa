// A GPT: embedding, blocks, a head that is tied to the token table or has one of its own, with a hand-written backward pass; whole, or the part of it that a pipeline stage holds.
// One class for f32 training and f64 checks; activations of a micro-batch live outside the model, so several can be in flight.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/nn/device/placed_tokens.h"
#include "models/layers/block.h"
#include "models/layers/embedding.h"
#include "models/stage/model_config.h"
#include "models/stage/stage.h"

namespace thinwire {

struct GptConfig : ModelConfig {
  GptConfig() = default;
  GptConfig(const ModelConfig& sizes) : ModelConfig(sizes) {}
  bool own_head = false;  ///< logits by a table of the head's own, not by that of the tokens
  std::int64_t parameters() const;  ///< numbers in all of them, as its geometry declares them
};

/// What a part runs on. Null: one rank, compute as it comes.
template <typename T>
struct GptRuntime {
  TensorParallel<T>* tensor = nullptr;
  ComputeClock* clock = nullptr;
  bool recompute = false;  ///< keep only the output of each block, run it again before its backward pass
};

template <typename T>
class Gpt final : public Stage<T> {
 public:
  using Saved = typename Stage<T>::Saved;
  struct Activations final : Saved {
    std::vector<typename Block<T>::Saved> blocks;
    typename TiedHead<T>::Saved head;
    nn::PlacedTokens tokens, targets;
  };

  explicit Gpt(const GptConfig& config, const ModelPart& part = {}, const GptRuntime<T>& runtime = {});

  const ModelPart& part() const override { return part_; }
  StageTraits traits() const override { return {.token_slices = true, .recorded_passes = true, .boundary_hooks = true}; }
  const std::vector<Unit<T>>& units() const override { return units_; }
  const ParameterList<T>& parameters() const override { return parameters_; }
  Parameter<T>* tied_table() override { return token_ && !config_.own_head ? &*token_ : nullptr; }
  /// [own rows, hidden].
  Shape boundary(const PassContext& pass) const override;
  std::unique_ptr<Saved> new_saved() const override { return std::make_unique<Activations>(); }
  void place(const PassContext& pass, const Batch& batch, Saved& saved) const override;
  void forward_unit(std::size_t unit, double gradient_scale, Saved& saved) override;
  void backward_unit(std::size_t unit, Saved& saved, Tensor& gradient) override;
  Tensor& output(Saved& saved) const override;
  const Tensor& loss(const Saved& saved) const override { return static_cast<const Activations&>(saved).head.loss; }
  void zero_gradients() override;

  // All units at once, for one rank, captures and tests. An observer sees what parallel training would send; it needs the host.

  /// Without the embedding, saved.input holds what the stage before sent. `batch` as in place(); of a slice (PassContext::length) its tokens
  /// alone. Slices go forward in order and backward in reverse, and need saved.prefix.
  void run_forward(const PassContext& pass, const Batch& batch, double gradient_scale, Activations& saved,
                   TrafficObserver<T>* observer = nullptr);
  /// run_forward, and the loss (0 without the head): waits for a device.
  double forward(const PassContext& pass, const Batch& batch, double gradient_scale, Activations& saved,
                 TrafficObserver<T>* observer = nullptr);
  /// `d` as in backward_unit().
  void backward(const Batch& batch, Activations& saved, Tensor& d, TrafficObserver<T>* observer = nullptr);
  /// Of a whole model.
  double forward(const Batch& batch, std::uint64_t step, bool train, double gradient_scale, Activations& saved,
                 TrafficObserver<T>* observer = nullptr);
  void backward(const Batch& batch, Activations& saved, TrafficObserver<T>* observer = nullptr);

  void at_boundaries(BoundaryHook hook) override { boundary_ = std::move(hook); }
  void join_table_gradients() override;

  /// By name. UsageError listing what exists.
  Parameter<T>& parameter(const std::string& name);
  const GptConfig& config() const { return config_; }
  TensorParallel<T>& tensor() const { return *runtime_.tensor; }

 private:
  /// Block that a unit is: -1 the embedding, number of blocks the head.
  int block_of(std::size_t unit) const { return static_cast<int>(unit) - (part_.embedding ? 1 : 0); }
  const T* input_of(std::size_t block, const Activations& saved) const;
  void embed(Activations& saved);
  void forward_block(std::size_t block, Activations& saved, TrafficObserver<T>* observer);
  void forward_unit(std::size_t unit, double gradient_scale, Activations& saved, TrafficObserver<T>* observer);
  void backward_unit(std::size_t unit, Activations& saved, Tensor& gradient, TrafficObserver<T>* observer);
  void backward_head(Activations& saved, Tensor& gradient, TrafficObserver<T>* observer);
  void backward_block(std::size_t block, Activations& saved, Tensor& gradient, TrafficObserver<T>* observer);
  void backward_embedding(Activations& saved, Tensor& gradient, TrafficObserver<T>* observer);
  void drop_embedded(const PassContext& pass, T* x) const;
  GptConfig config_;
  ModelPart part_;
  TensorParallel<T> alone_;
  ComputeClock own_clock_;
  LayerRuntime<T> runtime_;
  bool recompute_;
  Parameter<T>& head_table() { return config_.own_head ? *head_token_ : *token_; }
  std::optional<Parameter<T>> token_, head_token_;
  std::optional<Embedding<T>> embedding_;
  std::vector<std::unique_ptr<Block<T>>> blocks_;
  std::optional<TiedHead<T>> head_;
  ParameterList<T> parameters_;
  std::vector<Unit<T>> units_;
  typename Block<T>::Workspace work_;
  typename Block<T>::Saved again_;  ///< activations of the block that is recomputed
  Tensor gradient_, first_use_;
  BoundaryHook boundary_;
};

}  // namespace thinwire
