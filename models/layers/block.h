// One Transformer block, pre-layernorm (GPT-2, Radford et al. 2019):
//   a = x + dropout(projection(attention(qkv(layernorm(x)))))
//   y = a + dropout(projection(gelu(expand(layernorm(a)))))
// or post-layernorm (Vaswani et al. 2017; BERT, Devlin et al. 2018):
//   a = layernorm(x + dropout(projection(attention(qkv(x)))))
//   y = layernorm(a + dropout(projection(gelu(expand(a)))))
// Attention is causal, or sees a padded sequence in both directions.
// Tensor parallelism splits heads and the wide side of the MLP over the group: qkv and expand by columns, the projections by rows.
#pragma once

#include <optional>
#include <string>

#include "kernels/nn/attention/attention.h"
#include "models/layers/layernorm.h"
#include "models/layers/linear.h"
#include "models/compute/pass.h"
#include "models/parallel/tensor/tensor_parallel.h"
#include "models/parallel/channels/traffic_observer.h"

namespace thinwire {

struct BlockConfig {
  std::int64_t hidden = 0, heads = 0, layers = 0;
  double dropout = 0;
  std::uint64_t seed = 0;
  nn::ComputeType compute = nn::ComputeType::f32;
  bool post_norm = false;      ///< and projections begin as the other matrices: a norm follows them
  bool both_directions = false;
  bool exact_gelu = false;     ///< by erf, else by tanh
  double epsilon = nn::layernorm_epsilon;
};

/// What layers run on: the group that splits them, and the clock of their work.
template <typename T>
struct LayerRuntime {
  TensorParallel<T>* tensor = nullptr;
  ComputeClock* clock = nullptr;
};

/// The groups that hold copies of a parameter which tensor parallelism does not split: norms, biases of projections.
template <typename T>
SplitGroups replicas_of(const LayerRuntime<T>& runtime) {
  return runtime.tensor->splits() ? SplitGroups{runtime.tensor->group()} : SplitGroups{};
}

/// Standard deviation that matrices begin with (GPT-2).
inline constexpr double weight_deviation = 0.02;
/// That of projections into the residual stream: GPT-2 scales it by 1/sqrt(number of residual branches); where a norm follows the scale is lost anyway.
double residual_deviation(const BlockConfig& config);
/// "layer3": what names of the parameters of a block begin with.
std::string layer_name(int index);

template <typename T>
class Block {
 public:
  /// Activations of one micro-batch that the backward pass needs. `output` is the next block's input. normed1: input of qkv, which post-layernorm
  /// keeps only where it is gathered; normed2: of expand; middle: of the second norm, post-layernorm of the first; summed: then of the second.
  /// Where products round to bf16 on the host, what they multiply and what qkv and expand give is kept in bf16 (normed1, qkv, context, normed2, expanded),
  /// and the forward pass goes on with those values; the residual stream and the statistics are T.
  struct Saved {
    typename LayerNorm<T>::Saved norm1, norm2;
    Tensor normed1, qkv, context, log_sum_exp, middle, normed2, expanded, output, summed;
  };
  /// Scratch shared by all blocks of a model: contents live within one call.
  struct Workspace {
    Tensor wide, wide_gradient, narrow, narrow2, own, partial;
    Tensor rounded, rounded_gradient;  ///< in bf16: GELU's output, and a gradient that two products read
  };

  /// `runtime` outlives the block.
  Block(int index, const BlockConfig& config, const LayerRuntime<T>& runtime);

  /// x [own rows, hidden] (tensor.own_rows); saved.output likewise. `cache`: keys and values of the micro-batch's whole sequences,
  /// [batch, length, local heads, 2, head size], which the slices fill one after the other; where the pass is a slice.
  /// `lengths` [batch]: of the padded sequences, in both directions; null: no padding.
  void forward(const PassContext& pass, const T* x, Saved& saved, Workspace& work,
               TrafficObserver<T>* observer, Tensor* cache = nullptr, const std::int32_t* lengths = nullptr);
  /// d [own rows, hidden]: on entry the gradient of the output, on return of the input. The slices of a micro-batch come from the last to
  /// the first, with none of another micro-batch in between: the block holds the gradient of one cache.
  void backward(const PassContext& pass, const T* x, const Saved& saved, Workspace& work, T* d, const Tensor* cache = nullptr,
                const std::int32_t* lengths = nullptr);
  void collect(ParameterList<T>& list);
  int index() const { return index_; }
  /// As Unit::summed.
  std::vector<std::string> summed() const { return {name_ + attention_sum, name_ + mlp_sum}; }

  LayerNorm<T> norm1, norm2;
  Linear<T> qkv, attention_projection, expand, mlp_projection;

 private:
  static constexpr const char *attention_sum = ".attention.projection", *mlp_sum = ".mlp.projection";
  void drop(const PassContext& pass, const std::string& name, const T* x, T* y) const;
  /// The product of a row-parallel linear, before it is summed over the group; whole and with its bias on one rank.
  /// Into `y` as it is kept: T, or bf16 where products round.
  void multiply_columns(const Linear<T>& linear, std::int64_t rows, Operand<T> x, Tensor& y) const;
  void project(const Linear<T>& linear, std::int64_t rows, Operand<T> x, T* y) const;
  void attend(const PassContext& pass, const T* projected, T* context, T* log_sum_exp, Tensor* cache, const std::int32_t* lengths) const;
  void attend_backward(const PassContext& pass, const Saved& saved, const T* dcontext, T* dqkv, Workspace& work, const Tensor* cache, const std::int32_t* lengths);
  /// What qkv gave, for attention: as kept, or widened into `wide`.
  const T* widened(const Tensor& kept, Tensor& wide) const;
  /// `x` of [rows, columns] as it is; rounded into `kept` where products round.
  Operand<T> rounded(std::int64_t rows, std::int64_t columns, const T* x, Tensor& kept) const;
  /// The same of a tensor that the forward pass kept: T, or bf16.
  Operand<T> kept(const Tensor& tensor) const;
  /// All rows from the own ones: these themselves, or gathered into `all`.
  const T* gathered(const PassContext& pass, const char* name, const T* own, Tensor& all) const;
  /// GELU of what expand gave, into `wide` or, where that is bf16, into `rounded`.
  Operand<T> activate(const Tensor& expanded, Workspace& work) const;
  void activate_backward(const Tensor& expanded, T* d) const;
  nn::AttentionSlice slice_of(const PassContext& pass) const;
  /// A layernorm in front of a linear, with what it saw.
  struct NormBefore {
    LayerNorm<T>& norm;
    const T* input;
    const typename LayerNorm<T>::Saved& saved;
  };
  /// Backward pass through a column-parallel linear of input `x`, and through the norm before it, if there is one: adds to d.
  void column_backward(const PassContext& pass, const char* section, const char* weight_section, const std::string& tensor, Linear<T>& linear,
                       const std::optional<NormBefore>& before, Operand<T> x, const T* dy, Workspace& work, T* d);
  /// Post-layernorm: d becomes the gradient of the norm's input.
  void norm_backward(const PassContext& pass, LayerNorm<T>& norm, const T* x, const typename LayerNorm<T>::Saved& saved, std::int64_t own,
                     Workspace& work, T* d);

  int index_;
  std::string name_;
  BlockConfig config_;
  TensorParallel<T>& tensor_;
  ComputeClock& clock_;
  Tensor cache_gradient_;
  std::int32_t open_micro_ = -1, open_slice_ = 0;  ///< whose gradient that is, and the slice it was complete down to
};

}  // namespace thinwire
