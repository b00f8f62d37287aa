// A GPT: embedding, blocks, tied head, with a hand-written backward pass; whole, or the part of it that a pipeline stage holds.
// One class for f32 training and f64 checks; activations of a micro-batch live outside the model, so several can be in flight.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/nn/device/placed_tokens.h"
#include "models/layers/block.h"
#include "models/layers/embedding.h"

namespace thinwire {

struct GptConfig {
  std::int64_t vocab = 256, hidden = 512, layers = 4, heads = 8, max_seq = 512;
  double dropout = 0;
  std::uint64_t seed = 1;
  nn::ComputeType compute = nn::ComputeType::f32;
  /// UsageError naming both numbers when heads do not divide hidden, or an extent is not positive.
  void check() const;
  std::int64_t parameters() const;
};

/// Token ids [batch, seq] and the tokens that follow them.
struct TokenBatch {
  std::int64_t batch = 0, seq = 0;
  std::int64_t first_sample = 0;
  std::vector<std::int32_t> tokens, targets;
};

/// The tokens of `batch` for a backward pass: as its forward pass placed them. On the host they are the batch's own, which may be another
/// copy by now.
inline const std::int32_t* placed_tokens(const nn::PlacedTokens& placed, const TokenBatch& batch) {
  return placement().on_host() ? batch.tokens.data() : placed.data();
}

/// Which part of the model a pipeline stage holds: layers first_layer .. first_layer + layers - 1 (-1: all that follow), and
/// whether the embedding and the head are with them.
struct GptPart {
  int first_layer = 0, layers = -1;
  bool embedding = true, head = true;
  bool whole() const { return embedding && head; }
};

/// What a part runs on. Null: one rank, compute as it comes.
template <typename T>
struct GptRuntime {
  TensorParallel<T>* tensor = nullptr;
  ComputeClock* clock = nullptr;
  bool recompute = false;  ///< keep only the output of each block, run it again before its backward pass
};

/// Keys and values of a micro-batch's whole sequences, by block: what its slices see of those in front of them.
using PrefixCache = std::vector<Tensor>;

template <typename T>
class Gpt {
 public:
  struct Activations {
    Tensor input;  ///< [own rows, hidden] of the first block: embedded here, or received from the stage before
    std::vector<typename Block<T>::Saved> blocks;
    typename TiedHead<T>::Saved head;
    PassContext pass;
    nn::PlacedTokens tokens, targets;
    PrefixCache* prefix = nullptr;  ///< of slices: one for all slices of a micro-batch, held by the caller
  };
  /// Called in the backward pass when the gradients of a layer are complete for this micro-batch: number of layers for the head,
  /// then layer by layer, -1 for the embedding.
  using LayerDone = std::function<void(int layer)>;

  /// Called in the backward pass with the gradient [own rows, hidden] of the input of each layer but the first, which it may change: what a
  /// pipeline stage that begins with this layer would send.
  using BoundaryHook = std::function<void(int layer, const PassContext& pass, Tensor& gradient)>;

  explicit Gpt(const GptConfig& config, const GptPart& part = {}, const GptRuntime<T>& runtime = {});
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  /// The part's forward pass. Without the embedding, saved.input holds what the stage before sent. With the head the mean loss of the
  /// micro-batch in nats is in saved.head.loss. `gradient_scale` scales the gradients of the backward pass (1 / number of
  /// micro-batches when they are accumulated; of a slice times its share of the tokens). A pass may be a slice of the sequences
  /// (PassContext::length): then `batch` holds its tokens alone, slices go forward in order and backward in reverse, and saved.prefix is
  /// needed. UsageError when the sequences exceed max_seq, and for an observer on a device.
  void run_forward(const PassContext& pass, const TokenBatch& batch, double gradient_scale, Activations& saved,
                   TrafficObserver<T>* observer = nullptr);
  /// The two halves of run_forward: where tokens and targets go up, and all the rest, which queues the same work for equal passes.
  void place_batch(const PassContext& pass, const TokenBatch& batch, Activations& saved) const;
  void run_placed(double gradient_scale, Activations& saved, TrafficObserver<T>* observer = nullptr);
  /// run_forward, and the loss (0 without the head): waits for a device.
  double forward(const PassContext& pass, const TokenBatch& batch, double gradient_scale, Activations& saved,
                 TrafficObserver<T>* observer = nullptr);
  /// Adds the micro-batch's gradients to the parameters'. `d` [own rows, hidden]: on entry the gradient of the part's output (not
  /// read with the head), on return of its input (undefined with the embedding).
  void backward(const TokenBatch& batch, Activations& saved, Tensor& d, TrafficObserver<T>* observer = nullptr,
                const LayerDone& layer_done = {});
  /// Of a whole model.
  double forward(const TokenBatch& batch, std::uint64_t step, bool train, double gradient_scale, Activations& saved,
                 TrafficObserver<T>* observer = nullptr);
  void backward(const TokenBatch& batch, Activations& saved, TrafficObserver<T>* observer = nullptr);

  /// From now on; empty: none. With a hook, gradients of the tied table's two uses are summed apart, as on the first and last stage of a
  /// pipeline: join_table_gradients() before the table's gradient is used.
  void at_boundaries(BoundaryHook hook) { boundary_ = std::move(hook); }

  /// Adds the look-up's share to the table's gradient where it was summed apart (once: a second call adds nothing).
  void join_table_gradients();

  /// What the part hands to the next stage.
  Tensor& output(Activations& saved) const { return blocks_.empty() ? saved.input : saved.blocks.back().output; }
  /// All parameters in the order of the forward pass.
  const ParameterList<T>& parameters() { return parameters_; }
  /// For each parameter the layer whose backward pass completes its gradient, as LayerDone counts.
  const std::vector<int>& layers_of_parameters() const { return layers_; }
  /// By name. UsageError listing what exists.
  Parameter<T>& parameter(const std::string& name);
  /// The token table where this part holds it, or null.
  Parameter<T>* token() { return token_ ? &*token_ : nullptr; }
  void zero_gradients();
  const GptConfig& config() const { return config_; }
  const GptPart& part() const { return part_; }
  TensorParallel<T>& tensor() { return *runtime_.tensor; }

 private:
  const T* input_of(std::size_t block, const Activations& saved) const;
  void drop_embedded(const PassContext& pass, T* x) const;
  GptConfig config_;
  GptPart part_;
  TensorParallel<T> alone_;
  ComputeClock own_clock_;
  LayerRuntime<T> runtime_;
  bool recompute_;
  std::optional<Parameter<T>> token_;
  std::optional<Embedding<T>> embedding_;
  std::vector<std::unique_ptr<Block<T>>> blocks_;
  std::optional<TiedHead<T>> head_;
  ParameterList<T> parameters_;
  std::vector<int> layers_;
  typename Block<T>::Workspace work_;
  typename Block<T>::Saved again_;  ///< activations of the block that is recomputed
  Tensor gradient_, first_use_;
  BoundaryHook boundary_;
};

}  // namespace thinwire
