#include "models/layers/block.h"

#include <cmath>

#include "kernels/nn/elementwise.h"
#include "kernels/nn/gelu.h"
#include "models/layers/token_dropout.h"

namespace thinwire {
namespace {

constexpr double weight_deviation = 0.02;  // GPT-2

/// GPT-2 scales the projections into the residual stream by 1/sqrt(number of residual branches).
double residual_deviation(const BlockConfig& config) {
  return weight_deviation / std::sqrt(2.0 * static_cast<double>(config.layers));
}

std::string layer_name(int index) { return "layer" + std::to_string(index); }

template <typename T>
SplitGroups replicas_of(const LayerRuntime<T>& runtime) {
  return runtime.tensor->splits() ? SplitGroups{runtime.tensor->group()} : SplitGroups{};
}

}  // namespace

template <typename T>
Block<T>::Block(int index, const BlockConfig& c, const LayerRuntime<T>& runtime)
    : norm1(layer_name(index) + ".attention.norm", c.hidden, Layout::replicated(), replicas_of(runtime)),
      norm2(layer_name(index) + ".mlp.norm", c.hidden, Layout::replicated(), replicas_of(runtime)),
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
void Block<T>::attend(const PassContext& pass, const T* projected, T* context, T* log_sum_exp, Tensor* cache) const {
  if (!pass.sliced()) {
    nn::attention_forward<T>({pass.batch, pass.seq, config_.heads / tensor_.size(), config_.hidden / config_.heads}, projected, context, log_sum_exp,
                             config_.compute);
    return;
  }
  TW_ASSERT(cache != nullptr, "a slice without the keys and values of those in front of it");
  const nn::AttentionSlice slice = slice_of(pass);
  nn::attention_slice_forward<T>(slice, projected, shaped<T>(*cache, {slice.batch * slice.length, 2 * slice.hidden()}), context, log_sum_exp);
}

template <typename T>
void Block<T>::attend_backward(const PassContext& pass, const Saved& s, const T* dcontext, T* dqkv, const Tensor* cache) {
  if (!pass.sliced()) {
    nn::attention_backward<T>({pass.batch, pass.seq, config_.heads / tensor_.size(), config_.hidden / config_.heads}, data_of<T>(s.qkv),
                              data_of<T>(s.context), data_of<T>(s.log_sum_exp), dcontext, dqkv, config_.compute);
    return;
  }
  const nn::AttentionSlice slice = slice_of(pass);
  nn::attention_slice_backward<T>(slice, data_of<T>(s.qkv), data_of<T>(*cache), data_of<T>(s.context), data_of<T>(s.log_sum_exp), dcontext,
                                  shaped<T>(cache_gradient_, {slice.batch * slice.length, 2 * slice.hidden()}), dqkv);
}

template <typename T>
void Block<T>::project(const Linear<T>& linear, std::int64_t rows, const T* x, T* y) const {
  if (tensor_.splits())
    linear.partial(rows, x, y);
  else
    linear.forward(rows, x, y);
}

template <typename T>
void Block<T>::forward(const PassContext& pass, const T* x, Saved& s, Workspace& work, TrafficObserver<T>* observer, Tensor* cache) {
  const std::int64_t rows = pass.rows(), h = config_.hidden, own = tensor_.own_rows(rows).count, local = h / tensor_.size();
  const bool split_tokens = tensor_.sequence_parallel();
  const std::string projection = name_ + ".attention.projection", mlp = name_ + ".mlp.projection";

  T* normed1 = shaped<T>(s.normed1, {rows, h});
  T* own_normed = split_tokens ? shaped<T>(work.own, {own, h}) : normed1;
  clock_.run("attention norm", index_, pass.micro, [&] { norm1.forward(own, x, own_normed, s.norm1); });
  tensor_.gather_input(pass, name_ + ".attention.qkv", index_, rows, h, own_normed, normed1);

  T* qkv_out = shaped<T>(s.qkv, {rows, 3 * local});
  T* context = shaped<T>(s.context, {rows, local});
  T* lse = shaped<T>(s.log_sum_exp, {pass.batch, config_.heads / tensor_.size(), pass.seq});
  T* middle = shaped<T>(s.middle, {own, h});
  T* partial = split_tokens ? shaped<T>(work.partial, {rows, h}) : middle;
  clock_.run("attention", index_, pass.micro, [&] {
    qkv.forward(rows, normed1, qkv_out);
    attend(pass, qkv_out, context, lse, cache);
    if (observer) observer->row_parallel(projection, rows, h, h, context, attention_projection.weight.w());
    project(attention_projection, rows, context, partial);
  });
  tensor_.sum_output(pass, projection, index_, rows, h, partial, middle);

  T* normed2 = shaped<T>(s.normed2, {rows, h});
  own_normed = split_tokens ? shaped<T>(work.own, {own, h}) : normed2;
  clock_.run("mlp norm", index_, pass.micro, [&] {
    if (tensor_.splits()) attention_projection.add_bias(own, middle);
    drop(pass, ".attention.dropout", middle, middle);
    nn::add_into<T>(own * h, x, middle);
    norm2.forward(own, middle, own_normed, s.norm2);
  });
  tensor_.gather_input(pass, name_ + ".mlp.expand", index_, rows, h, own_normed, normed2);

  T* expanded = shaped<T>(s.expanded, {rows, 4 * local});
  T* activated = shaped<T>(work.wide, {rows, 4 * local});
  T* output = shaped<T>(s.output, {own, h});
  partial = split_tokens ? shaped<T>(work.partial, {rows, h}) : output;
  clock_.run("mlp", index_, pass.micro, [&] {
    expand.forward(rows, normed2, expanded);
    nn::gelu_forward<T>(rows * 4 * local, expanded, activated);
    if (observer) observer->row_parallel(mlp, rows, 4 * h, h, activated, mlp_projection.weight.w());
    project(mlp_projection, rows, activated, partial);
  });
  tensor_.sum_output(pass, mlp, index_, rows, h, partial, output);
  clock_.run("mlp residual", index_, pass.micro, [&] {
    if (tensor_.splits()) mlp_projection.add_bias(own, output);
    drop(pass, ".mlp.dropout", output, output);
    nn::add_into<T>(own * h, middle, output);
  });
}

template <typename T>
void Block<T>::column_backward(const PassContext& pass, const char* section, const char* weight_section, const std::string& tensor, Linear<T>& linear,
                               LayerNorm<T>& norm, const T* norm_input, const typename LayerNorm<T>::Saved& norm_saved, const T* normed,
                               const T* dy, Workspace& work, T* d) {
  const std::int64_t rows = pass.rows(), h = config_.hidden, own = tensor_.own_rows(rows).count;
  T* partial = shaped<T>(work.narrow2, {rows, h});
  T* own_gradient = tensor_.sequence_parallel() ? shaped<T>(work.own, {own, h}) : partial;
  clock_.run(section, index_, pass.micro, [&] { linear.input_gradient(rows, dy, partial); });
  Operation sum = tensor_.start_sum_input_gradient(pass, tensor, index_, rows, h, partial, own_gradient);
  // The weight's gradient needs nobody: it is computed while the sum travels.
  clock_.run(weight_section, index_, pass.micro, [&] {
    linear.weight_gradient(rows, normed, dy);
    linear.bias_gradient(rows, dy);
  });
  tensor_.finish_sum_input_gradient(std::move(sum), pass, tensor, index_, rows, h, own_gradient);
  clock_.run("norm backward", index_, pass.micro, [&] { norm.backward_add(own, norm_input, own_gradient, norm_saved, d); });
}

template <typename T>
void Block<T>::backward(const PassContext& pass, const T* x, const Saved& s, Workspace& work, T* d, const Tensor* cache) {
  if (pass.sliced()) {
    const bool last = pass.first_token + pass.seq == pass.length;
    TW_ASSERT(cache != nullptr && (last || (open_micro_ == pass.micro && open_slice_ == pass.slice + 1)),
              "slices of a micro-batch go backward from the last to the first, without another micro-batch in between");
    open_micro_ = pass.micro, open_slice_ = pass.slice;
  }
  const std::int64_t rows = pass.rows(), h = config_.hidden, own = tensor_.own_rows(rows).count, local = h / tensor_.size();
  const bool dropping = pass.train && config_.dropout > 0;
  T* branch = shaped<T>(work.narrow, {own, h});
  T* all_rows = tensor_.splits() ? shaped<T>(work.partial, {rows, h}) : nullptr;
  // The residual stream passes its gradient on unchanged; a branch sees it through its dropout mask.
  const auto into_branch = [&](const char* name, Linear<T>& projection) -> const T* {
    const T* gradient = d;
    if (dropping) drop(pass, name, d, branch), gradient = branch;
    projection.bias_gradient(own, gradient);
    return gradient;
  };

  const T* dy = dropping ? branch : d;
  clock_.run("mlp branch backward", index_, pass.micro, [&] { into_branch(".mlp.dropout", mlp_projection); });
  dy = tensor_.sum_output_backward(pass, name_ + ".mlp.projection", index_, rows, h, dy, all_rows, clock_);
  T* activated = shaped<T>(work.wide, {rows, 4 * local});  // recomputed: cheaper than keeping 4h per token and layer
  T* wide_gradient = shaped<T>(work.wide_gradient, {rows, 4 * local});
  clock_.run("mlp backward", index_, pass.micro, [&] {
    nn::gelu_forward<T>(rows * 4 * local, data_of<T>(s.expanded), activated);
    mlp_projection.input_gradient(rows, dy, wide_gradient);
    mlp_projection.weight_gradient(rows, activated, dy);
    nn::gelu_backward<T>(rows * 4 * local, data_of<T>(s.expanded), wide_gradient, wide_gradient);
  });
  column_backward(pass, "expand backward", "expand weight", name_ + ".mlp.expand", expand, norm2, data_of<T>(s.middle), s.norm2, data_of<T>(s.normed2),
                  wide_gradient, work, d);

  dy = dropping ? branch : d;
  clock_.run("attention branch backward", index_, pass.micro, [&] { into_branch(".attention.dropout", attention_projection); });
  dy = tensor_.sum_output_backward(pass, name_ + ".attention.projection", index_, rows, h, dy, all_rows, clock_);
  T* context_gradient = shaped<T>(work.narrow2, {rows, local});
  T* qkv_gradient = shaped<T>(work.wide, {rows, 3 * local});
  clock_.run("attention backward", index_, pass.micro, [&] {
    attention_projection.input_gradient(rows, dy, context_gradient);
    attention_projection.weight_gradient(rows, data_of<T>(s.context), dy);
    attend_backward(pass, s, context_gradient, qkv_gradient, cache);
  });
  column_backward(pass, "qkv backward", "qkv weight", name_ + ".attention.qkv", qkv, norm1, x, s.norm1, data_of<T>(s.normed1), qkv_gradient, work, d);
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
