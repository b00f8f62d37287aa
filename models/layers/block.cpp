#include "models/layers/block.h"

#include <cmath>
#include <span>
#include <type_traits>

#include "kernels/convert.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/gelu.h"
#include "models/layers/token_dropout.h"

namespace thinwire {

double residual_deviation(const BlockConfig& config) {
  if (config.post_norm) return weight_deviation;
  return weight_deviation / std::sqrt(2.0 * static_cast<double>(config.layers));
}

std::string layer_name(int index) { return "layer" + std::to_string(index); }

template <typename T>
Block<T>::Block(int index, const BlockConfig& c, const LayerRuntime<T>& runtime)
    : norm1(layer_name(index) + ".attention.norm", c.hidden, Layout::replicated(), replicas_of(runtime), c.epsilon),
      norm2(layer_name(index) + ".mlp.norm", c.hidden, Layout::replicated(), replicas_of(runtime), c.epsilon),
      qkv(column_parallel(layer_name(index) + ".attention.qkv", c.hidden, 3 * c.hidden, runtime.tensor->size(), runtime.tensor->rank()),
          c.seed, weight_deviation, c.compute),
      attention_projection(row_parallel(layer_name(index) + ".attention.projection", c.hidden, c.hidden, runtime.tensor->size(),
                                        runtime.tensor->rank()),
                           c.seed, residual_deviation(c), c.compute),
      expand(column_parallel(layer_name(index) + ".mlp.expand", c.hidden, 4 * c.hidden, runtime.tensor->size(), runtime.tensor->rank()),
             c.seed, weight_deviation, c.compute),
      mlp_projection(row_parallel(layer_name(index) + ".mlp.projection", 4 * c.hidden, c.hidden, runtime.tensor->size(),
                                  runtime.tensor->rank()),
                     c.seed, residual_deviation(c), c.compute),
      index_(index),
      name_(layer_name(index)),
      config_(c),
      tensor_(*runtime.tensor),
      clock_(*runtime.clock) {}

template <typename T>
void Block<T>::drop(const PassContext& pass, const std::string& name, const T* x, T* y) const {
  const std::string tensor = name_ + name;  // the key holds a view of it
  drop_tokens<T>(pass, tensor_.own_rows(pass.rows()), config_.hidden, pass.train ? config_.dropout : 0.0, {config_.seed, tensor, pass.step}, x, y);
}

template <typename T>
nn::AttentionSlice Block<T>::slice_of(const PassContext& pass) const {
  return {pass.batch, pass.seq, pass.first_token, pass.length, config_.heads / tensor_.size(), config_.hidden / config_.heads};
}

template <typename T>
void Block<T>::attend(const PassContext& pass, const T* projected, T* context, T* log_sum_exp, Tensor* cache, const std::int32_t* lengths) const {
  const nn::AttentionShape whole{pass.batch, pass.seq, config_.heads / tensor_.size(), config_.hidden / config_.heads};
  if (config_.both_directions) {
    TW_ASSERT(!pass.sliced(), "a slice cannot see the tokens behind it");
    return nn::padded_attention_forward<T>(whole, lengths, projected, context, log_sum_exp);
  }
  if (!pass.sliced()) return nn::attention_forward<T>(whole, projected, context, log_sum_exp, config_.compute);
  TW_ASSERT(cache != nullptr, "a slice without the keys and values of those in front of it");
  const nn::AttentionSlice slice = slice_of(pass);
  nn::attention_slice_forward<T>(slice, projected, shaped<T>(*cache, {slice.batch * slice.length, 2 * slice.hidden()}), context, log_sum_exp);
}

template <typename T>
void Block<T>::attend_backward(const PassContext& pass, const Saved& s, const T* dcontext, T* dqkv, Workspace& work, const Tensor* cache,
                               const std::int32_t* lengths) {
  const T *projected = widened(s.qkv, work.wide_gradient), *context = widened(s.context, work.narrow), *lse = data_of<T>(s.log_sum_exp);
  const nn::AttentionShape whole{pass.batch, pass.seq, config_.heads / tensor_.size(), config_.hidden / config_.heads};
  if (config_.both_directions) return nn::padded_attention_backward<T>(whole, lengths, projected, context, lse, dcontext, dqkv);
  if (!pass.sliced()) return nn::attention_backward<T>(whole, projected, context, lse, dcontext, dqkv, config_.compute);
  const nn::AttentionSlice slice = slice_of(pass);
  nn::attention_slice_backward<T>(slice, projected, data_of<T>(*cache), context, lse, dcontext,
                                  shaped<T>(cache_gradient_, {slice.batch * slice.length, 2 * slice.hidden()}), dqkv);
}

template <typename T>
Operand<T> Block<T>::rounded(std::int64_t rows, std::int64_t columns, const T* x, Tensor& kept) const {
  if constexpr (std::is_same_v<T, float>)
    if (qkv.rounds()) {
      BFloat16* to = shaped<BFloat16>(kept, {rows, columns});
      const auto count = static_cast<std::size_t>(rows * columns);
      convert(std::span(x, count), std::span(to, count));
      return Operand<T>(to);
    }
  return x;
}

template <typename T>
Operand<T> Block<T>::kept(const Tensor& tensor) const {
  return tensor.dtype() == DType::bf16 ? Operand<T>(data_of<BFloat16>(tensor)) : Operand<T>(data_of<T>(tensor));
}

template <typename T>
const T* Block<T>::widened(const Tensor& kept, Tensor& wide) const {
  if constexpr (std::is_same_v<T, float>)
    if (kept.dtype() == DType::bf16) {
      T* to = shaped<T>(wide, kept.shape());
      convert(kept.as<BFloat16>(), wide.as<float>());
      return to;
    }
  return data_of<T>(kept);
}

template <typename T>
Operand<T> Block<T>::activate(const Tensor& expanded, Workspace& work) const {
  const std::int64_t count = expanded.elements();
  if (expanded.dtype() == DType::bf16) {
    const auto* x = data_of<BFloat16>(expanded);
    BFloat16* y = shaped<BFloat16>(work.rounded, expanded.shape());
    config_.exact_gelu ? nn::gelu_erf_forward(count, x, y) : nn::gelu_forward(count, x, y);
    return Operand<T>(y);
  }
  const T* x = data_of<T>(expanded);
  T* y = shaped<T>(work.wide, expanded.shape());
  config_.exact_gelu ? nn::gelu_erf_forward<T>(count, x, y) : nn::gelu_forward<T>(count, x, y);
  return y;
}

template <typename T>
void Block<T>::activate_backward(const Tensor& expanded, T* d) const {
  const std::int64_t count = expanded.elements();
  if constexpr (std::is_same_v<T, float>)
    if (expanded.dtype() == DType::bf16) {
      const auto* x = data_of<BFloat16>(expanded);
      return config_.exact_gelu ? nn::gelu_erf_backward(count, x, d, d) : nn::gelu_backward(count, x, d, d);
    }
  const T* x = data_of<T>(expanded);
  config_.exact_gelu ? nn::gelu_erf_backward<T>(count, x, d, d) : nn::gelu_backward<T>(count, x, d, d);
}

template <typename T>
const T* Block<T>::gathered(const PassContext& pass, const char* name, const T* own, Tensor& all) const {
  if (!tensor_.sequence_parallel()) return own;
  T* rows = shaped<T>(all, {pass.rows(), config_.hidden});
  tensor_.gather_input(pass, name_ + name, index_, pass.rows(), config_.hidden, own, rows);
  return rows;
}

template <typename T>
void Block<T>::project(const Linear<T>& linear, std::int64_t rows, Operand<T> x, T* y) const {
  if (tensor_.splits())
    linear.partial(rows, x, y);
  else
    linear.forward(rows, x, y);
}

template <typename T>
void Block<T>::multiply_columns(const Linear<T>& linear, std::int64_t rows, Operand<T> x, Tensor& y) const {
  const Shape shape = {rows, linear.out()};
  if (linear.rounds())
    linear.forward(rows, x, shaped<BFloat16>(y, shape));
  else
    linear.forward(rows, x, shaped<T>(y, shape));
}

template <typename T>
void Block<T>::forward(const PassContext& pass, const T* x, Saved& s, Workspace& work, TrafficObserver<T>* observer, Tensor* cache,
                       const std::int32_t* lengths) {
  const std::int64_t rows = pass.rows(), h = config_.hidden, own = tensor_.own_rows(rows).count, local = h / tensor_.size();
  const bool split_tokens = tensor_.sequence_parallel(), post = config_.post_norm;
  const std::string projection = name_ + attention_sum, mlp = name_ + mlp_sum;

  // Own rows of split tokens, and values still to be rounded, are not what is kept of a product's input.
  const bool rounds = qkv.rounds(), apart = split_tokens || rounds;
  const auto input = [&](const char* name, const T* own_rows, Tensor& keep) -> Operand<T> {
    const T* all = gathered(pass, name, own_rows, rounds ? work.partial : keep);
    return all == x ? Operand<T>(x) : rounded(rows, h, all, keep);
  };
  const T* before_qkv = x;
  if (!post) {
    T* normed1 = shaped<T>(apart ? work.own : s.normed1, {own, h});
    clock_.run("attention norm", index_, pass.micro, [&] { norm1.forward(own, x, normed1, s.norm1); });
    before_qkv = normed1;
  }
  const Operand<T> qkv_input = input(".attention.qkv", before_qkv, s.normed1);

  T* context = shaped<T>(rounds ? work.narrow : s.context, {rows, local});
  T* lse = shaped<T>(s.log_sum_exp, {pass.batch, config_.heads / tensor_.size(), pass.seq});
  T* middle = shaped<T>(s.middle, {own, h});
  T* partial = split_tokens ? shaped<T>(work.partial, {rows, h}) : middle;
  clock_.run("attention", index_, pass.micro, [&] {
    multiply_columns(qkv, rows, qkv_input, s.qkv);
    attend(pass, widened(s.qkv, work.wide), context, lse, cache, lengths);
    if (observer) observer->row_parallel(projection, rows, h, h, context, attention_projection.weight.w());
    project(attention_projection, rows, rounded(rows, local, context, s.context), partial);
  });
  tensor_.sum_output(pass, projection, index_, rows, h, partial, middle);

  T* own_normed = shaped<T>(apart ? work.own : s.normed2, {own, h});
  clock_.run("mlp norm", index_, pass.micro, [&] {
    if (tensor_.splits()) attention_projection.add_bias(own, middle);
    drop(pass, ".attention.dropout", middle, middle);
    nn::add_into<T>(own * h, x, middle);
    post ? norm1.forward(own, middle, own_normed, s.norm1) : norm2.forward(own, middle, own_normed, s.norm2);
  });
  const Operand<T> expand_input = input(".mlp.expand", own_normed, s.normed2);

  T* sum = shaped<T>(post ? s.summed : s.output, {own, h});
  partial = split_tokens ? shaped<T>(work.partial, {rows, h}) : sum;
  clock_.run("mlp", index_, pass.micro, [&] {
    multiply_columns(expand, rows, expand_input, s.expanded);
    const Operand<T> activated = activate(s.expanded, work);
    if (observer) observer->row_parallel(mlp, rows, 4 * h, h, rounds ? widened(work.rounded, work.wide) : activated.values, mlp_projection.weight.w());
    project(mlp_projection, rows, activated, partial);
  });
  tensor_.sum_output(pass, mlp, index_, rows, h, partial, sum);
  clock_.run("mlp residual", index_, pass.micro, [&] {
    if (tensor_.splits()) mlp_projection.add_bias(own, sum);
    drop(pass, ".mlp.dropout", sum, sum);
    nn::add_into<T>(own * h, post ? own_normed : middle, sum);
    if (post) norm2.forward(own, sum, shaped<T>(s.output, {own, h}), s.norm2);
  });
}

template <typename T>
void Block<T>::column_backward(const PassContext& pass, const char* section, const char* weight_section, const std::string& tensor, Linear<T>& linear,
                               const std::optional<NormBefore>& before, Operand<T> x, const T* dy, Workspace& work, T* d) {
  const std::int64_t rows = pass.rows(), h = config_.hidden, own = tensor_.own_rows(rows).count;
  T* partial = shaped<T>(work.narrow2, {rows, h});
  T* own_gradient = tensor_.sequence_parallel() ? shaped<T>(work.own, {own, h}) : partial;
  Operand<T> gradient = dy;
  clock_.run(section, index_, pass.micro, [&] {
    gradient = rounded(rows, linear.out(), dy, work.rounded_gradient);
    linear.input_gradient(rows, gradient, partial);
  });
  Operation sum = tensor_.start_sum_input_gradient(pass, tensor, index_, rows, h, partial, own_gradient);
  // The weight's gradient needs nobody: it is computed while the sum travels.
  clock_.run(weight_section, index_, pass.micro, [&] {
    linear.weight_gradient(rows, x, gradient);
    linear.bias_gradient(rows, dy);
  });
  tensor_.finish_sum_input_gradient(std::move(sum), pass, tensor, index_, rows, h, own_gradient);
  clock_.run("norm backward", index_, pass.micro, [&] {
    before ? before->norm.backward_add(own, before->input, own_gradient, before->saved, d) : nn::add_into<T>(own * h, own_gradient, d);
  });
}

template <typename T>
void Block<T>::norm_backward(const PassContext& pass, LayerNorm<T>& norm, const T* x, const typename LayerNorm<T>::Saved& saved, std::int64_t own,
                             Workspace& work, T* d) {
  T* gradient = shaped<T>(work.narrow, {own, config_.hidden});
  clock_.run("post norm backward", index_, pass.micro, [&] {
    norm.backward(own, x, d, saved, gradient);
    copy_bytes(d, gradient, static_cast<std::size_t>(own * config_.hidden) * sizeof(T));
  });
}

template <typename T>
void Block<T>::backward(const PassContext& pass, const T* x, const Saved& s, Workspace& work, T* d, const Tensor* cache, const std::int32_t* lengths) {
  if (pass.sliced()) {
    const bool last = pass.first_token + pass.seq == pass.length;
    TW_ASSERT(cache != nullptr && (last || (open_micro_ == pass.micro && open_slice_ == pass.slice + 1)),
              "slices of a micro-batch go backward from the last to the first, without another micro-batch in between");
    open_micro_ = pass.micro, open_slice_ = pass.slice;
  }
  const std::int64_t rows = pass.rows(), h = config_.hidden, own = tensor_.own_rows(rows).count, local = h / tensor_.size();
  const bool dropping = pass.train && config_.dropout > 0, post = config_.post_norm;
  T* branch = shaped<T>(work.narrow, {own, h});
  T* all_rows = tensor_.splits() ? shaped<T>(work.partial, {rows, h}) : nullptr;
  // The residual stream passes its gradient on unchanged; a branch sees it through its dropout mask.
  const auto into_branch = [&](const char* name, Linear<T>& projection) -> const T* {
    const T* gradient = d;
    if (dropping) drop(pass, name, d, branch), gradient = branch;
    projection.bias_gradient(own, gradient);
    return gradient;
  };

  if (post) norm_backward(pass, norm2, data_of<T>(s.summed), s.norm2, own, work, d);
  const T* dy = dropping ? branch : d;
  clock_.run("mlp branch backward", index_, pass.micro, [&] { into_branch(".mlp.dropout", mlp_projection); });
  dy = tensor_.sum_output_backward(pass, name_ + mlp_sum, index_, rows, h, dy, all_rows, clock_);
  T* wide_gradient = shaped<T>(work.wide_gradient, {rows, 4 * local});
  clock_.run("mlp backward", index_, pass.micro, [&] {
    const Operand<T> activated = activate(s.expanded, work);  // recomputed: cheaper than keeping 4h per token and layer
    const Operand<T> gradient = rounded(rows, h, dy, work.rounded_gradient);
    mlp_projection.input_gradient(rows, gradient, wide_gradient);
    mlp_projection.weight_gradient(rows, activated, gradient);
    activate_backward(s.expanded, wide_gradient);
  });
  using Before = std::optional<NormBefore>;
  column_backward(pass, "expand backward", "expand weight", name_ + ".mlp.expand", expand, post ? Before{} : Before({norm2, data_of<T>(s.middle), s.norm2}),
                  kept(s.normed2), wide_gradient, work, d);
  if (post) norm_backward(pass, norm1, data_of<T>(s.middle), s.norm1, own, work, d);

  dy = dropping ? branch : d;
  clock_.run("attention branch backward", index_, pass.micro, [&] { into_branch(".attention.dropout", attention_projection); });
  dy = tensor_.sum_output_backward(pass, name_ + attention_sum, index_, rows, h, dy, all_rows, clock_);
  T* context_gradient = shaped<T>(work.narrow2, {rows, local});
  T* qkv_gradient = shaped<T>(work.wide, {rows, 3 * local});
  clock_.run("attention backward", index_, pass.micro, [&] {
    const Operand<T> gradient = rounded(rows, h, dy, work.rounded_gradient);
    attention_projection.input_gradient(rows, gradient, context_gradient);
    attention_projection.weight_gradient(rows, kept(s.context), gradient);
    attend_backward(pass, s, context_gradient, qkv_gradient, work, cache, lengths);
  });
  const Operand<T> qkv_input = post && !tensor_.sequence_parallel() ? Operand<T>(x) : kept(s.normed1);
  column_backward(pass, "qkv backward", "qkv weight", name_ + ".attention.qkv", qkv, post ? Before{} : Before({norm1, x, s.norm1}), qkv_input, qkv_gradient,
                  work, d);
}

template <typename T>
void Block<T>::collect(ParameterList<T>& list) {
  norm1.collect(list);
  qkv.collect(list);
  attention_projection.collect(list);
  norm2.collect(list);
  expand.collect(list);
  mlp_projection.collect(list);
}

template class Block<float>;
template class Block<double>;

}  // namespace thinwire
