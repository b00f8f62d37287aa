// A GPT: embedding, blocks, tied head, with a hand-written backward pass. One class for f32 training and f64
// checks; activations of a micro-batch live outside the model, so several can be in flight.
#pragma once

#include <memory>
#include <vector>

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

template <typename T>
class Gpt {
 public:
  struct Activations {
    Tensor embedded;
    std::vector<typename Block<T>::Saved> blocks;
    typename TiedHead<T>::Saved head;
    PassContext pass;
  };

  explicit Gpt(const GptConfig& config, const Layout& layout = Layout::replicated());

  /// Mean loss of the micro-batch in nats. `gradient_scale` scales the gradients of the backward pass (1 /
  /// number of micro-batches when they are accumulated). UsageError when seq exceeds max_seq.
  double forward(const TokenBatch& batch, std::uint64_t step, bool train, double gradient_scale,
                 Activations& saved, TrafficObserver<T>* observer = nullptr);
  /// Adds the micro-batch's gradients to the parameters'.
  void backward(const TokenBatch& batch, Activations& saved, TrafficObserver<T>* observer = nullptr);

  /// All parameters in the order of the forward pass.
  const ParameterList<T>& parameters() { return parameters_; }
  /// By name. UsageError listing what exists.
  Parameter<T>& parameter(const std::string& name);
  void zero_gradients();
  const GptConfig& config() const { return config_; }

 private:
  const T* input_of(std::size_t block, const Activations& saved) const;
  GptConfig config_;
  Embedding<T> embedding_;
  std::vector<std::unique_ptr<Block<T>>> blocks_;
  TiedHead<T> head_;
  ParameterList<T> parameters_;
  typename Block<T>::Workspace work_;
  Tensor gradient_, first_use_;
};

}  // namespace thinwire
