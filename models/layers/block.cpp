#include "models/layers/block.h"

#include <cmath>

#include "kernels/nn/attention.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/gelu.h"

namespace thinwire {
namespace {

constexpr double weight_deviation = 0.02;  // GPT-2

/// GPT-2 scales the projections into the residual stream by 1/sqrt(number of residual branches).
double residual_deviation(const BlockConfig& config) {
  return weight_deviation / std::sqrt(2.0 * static_cast<double>(config.layers));
}

}  // namespace

template <typename T>
Block<T>::Block(int index, const BlockConfig& c, const Layout& layout)
    : norm1("layer" + std::to_string(index) + ".attention.norm", c.hidden, layout),
      norm2("layer" + std::to_string(index) + ".mlp.norm", c.hidden, layout),
      qkv(column_parallel("layer" + std::to_string(index) + ".attention.qkv", c.hidden, 3 * c.hidden, 1, 0),
          c.seed, weight_deviation, c.compute),
      attention_projection(
          row_parallel("layer" + std::to_string(index) + ".attention.projection", c.hidden, c.hidden, 1, 0),
          c.seed, residual_deviation(c), c.compute),
      expand(column_parallel("layer" + std::to_string(index) + ".mlp.expand", c.hidden, 4 * c.hidden, 1, 0),
             c.seed, weight_deviation, c.compute),
      mlp_projection(
          row_parallel("layer" + std::to_string(index) + ".mlp.projection", 4 * c.hidden, c.hidden, 1, 0),
          c.seed, residual_deviation(c), c.compute),
      name_("layer" + std::to_string(index)),
      config_(c) {}

template <typename T>
void Block<T>::drop(const PassContext& pass, const std::string& name, const T* x, T* y) const {
  nn::dropout<T>(pass.rows() * config_.hidden, pass.train ? config_.dropout : 0.0,
                 {config_.seed, name_ + name, pass.step}, pass.first_sample * pass.seq * config_.hidden, x,
                 y);
}

template <typename T>
void Block<T>::forward(const PassContext& pass, const T* x, Saved& s, Workspace& work,
                       TrafficObserver<T>* observer) {
  const std::int64_t rows = pass.rows(), h = config_.hidden;
  T* normed1 = shaped<T>(s.normed1, {rows, h});
  norm1.forward(rows, x, normed1, s.norm1);
  T* qkv_out = shaped<T>(s.qkv, {rows, 3 * h});
  qkv.forward(rows, normed1, qkv_out);
  T* context = shaped<T>(s.context, {rows, h});
  const nn::AttentionShape attention{pass.batch, pass.seq, config_.heads, h / config_.heads};
  nn::attention_forward<T>(attention, qkv_out, context,
                           shaped<T>(s.log_sum_exp, {pass.batch, config_.heads, pass.seq}));
  T* middle = shaped<T>(s.middle, {rows, h});
  if (observer)
    observer->row_parallel(name_ + ".attention.projection", rows, h, h, context,
                           attention_projection.weight.w());
  attention_projection.forward(rows, context, middle);
  drop(pass, ".attention.dropout", middle, middle);
  nn::add_into<T>(rows * h, x, middle);

  T* normed2 = shaped<T>(s.normed2, {rows, h});
  norm2.forward(rows, middle, normed2, s.norm2);
  T* expanded = shaped<T>(s.expanded, {rows, 4 * h});
  expand.forward(rows, normed2, expanded);
  T* activated = shaped<T>(work.wide, {rows, 4 * h});
  nn::gelu_forward<T>(rows * 4 * h, expanded, activated);
  T* output = shaped<T>(s.output, {rows, h});
  if (observer)
    observer->row_parallel(name_ + ".mlp.projection", rows, 4 * h, h, activated, mlp_projection.weight.w());
  mlp_projection.forward(rows, activated, output);
  drop(pass, ".mlp.dropout", output, output);
  nn::add_into<T>(rows * h, middle, output);
}

template <typename T>
void Block<T>::backward(const PassContext& pass, const T* x, const Saved& s, Workspace& work, T* d) {
  const std::int64_t rows = pass.rows(), h = config_.hidden;
  const bool dropping = pass.train && config_.dropout > 0;
  T* branch = shaped<T>(work.narrow, {rows, h});
  T* normed_gradient = shaped<T>(work.narrow2, {rows, h});
  // The residual stream passes its gradient on unchanged; a branch sees it through its dropout mask.
  const auto into_branch = [&](const char* name) -> const T* {
    if (!dropping) return d;
    drop(pass, name, d, branch);
    return branch;
  };

  T* activated =
      shaped<T>(work.wide, {rows, 4 * h});  // recomputed: cheaper than keeping 4h per token and layer
  nn::gelu_forward<T>(rows * 4 * h, data_of<T>(s.expanded), activated);
  T* wide_gradient = shaped<T>(work.wide_gradient, {rows, 4 * h});
  mlp_projection.backward(rows, activated, into_branch(".mlp.dropout"), wide_gradient);
  nn::gelu_backward<T>(rows * 4 * h, data_of<T>(s.expanded), wide_gradient, wide_gradient);
  expand.backward(rows, data_of<T>(s.normed2), wide_gradient, normed_gradient);
  norm2.backward_add(rows, data_of<T>(s.middle), normed_gradient, s.norm2, d);

  T* context_gradient = normed_gradient;
  attention_projection.backward(rows, data_of<T>(s.context), into_branch(".attention.dropout"),
                                context_gradient);
  T* qkv_gradient = shaped<T>(work.wide, {rows, 3 * h});
  nn::attention_backward<T>({pass.batch, pass.seq, config_.heads, h / config_.heads}, data_of<T>(s.qkv),
                            data_of<T>(s.context), data_of<T>(s.log_sum_exp), context_gradient, qkv_gradient);
  qkv.backward(rows, data_of<T>(s.normed1), qkv_gradient, normed_gradient);
  norm1.backward_add(rows, x, normed_gradient, s.norm1, d);
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
