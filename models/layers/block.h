// One Transformer block, pre-layernorm (GPT-2, Radford et al. 2019):
//   a = x + dropout(projection(attention(qkv(layernorm(x)))))
//   y = a + dropout(projection(gelu(expand(layernorm(a)))))
#pragma once

#include <string>

#include "models/layers/layernorm.h"
#include "models/layers/linear.h"
#include "models/traffic_observer.h"

namespace thinwire {

struct BlockConfig {
  std::int64_t hidden = 0, heads = 0, layers = 0;
  double dropout = 0;
  std::uint64_t seed = 0;
  nn::ComputeType compute = nn::ComputeType::f32;
};

/// Which pass over which data: keys of dropout.
struct PassContext {
  std::int64_t batch = 0, seq = 0;
  bool train = true;  ///< dropout acts
  std::uint64_t step = 0;
  std::int64_t first_sample = 0;  ///< number of the first sequence within the step's global batch
  std::int64_t rows() const { return batch * seq; }
};

template <typename T>
class Block {
 public:
  /// Activations of one micro-batch that the backward pass needs. `output` is the next block's input.
  struct Saved {
    typename LayerNorm<T>::Saved norm1, norm2;
    Tensor normed1, qkv, context, log_sum_exp, middle, normed2, expanded, output;
  };
  /// Scratch shared by all blocks of a model: contents live within one call.
  struct Workspace {
    Tensor wide, wide_gradient, narrow, narrow2;
  };

  Block(int index, const BlockConfig& config, const Layout& layout);

  void forward(const PassContext& pass, const T* x, Saved& saved, Workspace& work,
               TrafficObserver<T>* observer);
  /// d [rows, hidden]: on entry the gradient of the output, on return of the input.
  void backward(const PassContext& pass, const T* x, const Saved& saved, Workspace& work, T* d);
  void collect(ParameterList<T>& list);

  LayerNorm<T> norm1, norm2;
  Linear<T> qkv, attention_projection, expand, mlp_projection;

 private:
  void drop(const PassContext& pass, const std::string& name, const T* x, T* y) const;
  std::string name_;
  BlockConfig config_;
};

}  // namespace thinwire
