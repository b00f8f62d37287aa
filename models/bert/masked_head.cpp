#include "models/bert/masked_head.h"

#include <algorithm>
#include <limits>

#include "kernels/nn/elementwise.h"
#include "kernels/nn/gelu.h"
#include "kernels/nn/softmax.h"
#include "models/layers/local_product.h"

namespace thinwire {
namespace {

using nn::Transpose;

template <typename T>
LinearLayouts replicated_linear(const std::string& name, std::int64_t hidden, const LayerRuntime<T>& runtime) {
  LinearLayouts l;
  l.weight = ParameterLayout(name + ".weight", {hidden, hidden}, {}, {}, replicas_of(runtime));
  l.bias = ParameterLayout(name + ".bias", {hidden}, {}, {}, replicas_of(runtime));
  return l;
}

}  // namespace

template <typename T>
MaskedHead<T>::MaskedHead(const BertConfig& c, const LayerRuntime<T>& runtime)
    : dense(replicated_linear("head.dense", c.hidden, runtime), c.seed, 0.02, c.compute),
      norm("head.norm", c.hidden, Layout::replicated(), replicas_of(runtime), c.epsilon),
      bias(ParameterLayout("head.bias", {padded_vocabulary(c.vocab, runtime.tensor->size())}, {}, replicas_of(runtime)).padded_after(c.vocab), false),
      config_(c),
      layer_(static_cast<int>(c.layers) - 1),
      tensor_(*runtime.tensor),
      clock_(*runtime.clock) {}

template <typename T>
void MaskedHead<T>::collect(ParameterList<T>& list) {
  dense.collect(list);
  norm.collect(list);
  list.push_back(&bias);
}

template <typename T>
void MaskedHead<T>::place(std::span<const std::int32_t> labels, Saved& s) {
  s.rows.clear(), s.labels.clear();
  for (std::size_t r = 0; r < labels.size(); ++r)
    if (labels[r] != -1) s.rows.push_back(static_cast<std::int32_t>(r)), s.labels.push_back(labels[r]);
}

template <typename T>
void MaskedHead<T>::activate(std::int64_t count, const T* x, T* y) const {
  config_.exact_gelu ? nn::gelu_erf_forward<T>(count, x, y) : nn::gelu_forward<T>(count, x, y);
}

template <typename T>
void MaskedHead<T>::forward(const PassContext& pass, const T* x, const Parameter<T>& table, double gradient_scale, Saved& s) {
  const std::int64_t rows = pass.rows(), own = tensor_.own_rows(rows).count, h = config_.hidden, columns = table.layout.rows().count;
  const auto labelled = static_cast<std::int64_t>(s.rows.size());
  T *projected = shaped<T>(s.dense, {own, h}), *activated = shaped<T>(s.activated, {own, h}), *normed = shaped<T>(s.normed, {rows, h});
  T* own_normed = tensor_.sequence_parallel() ? shaped<T>(own_, {own, h}) : normed;
  clock_.run("head dense", -1, pass.micro, [&] {
    dense.forward(own, x, projected);
    activate(own * h, projected, activated);
    norm.forward(own, activated, own_normed, s.norm);
  });
  tensor_.gather_input(pass, "head", layer_, rows, h, own_normed, normed);
  s.loss = s.right = 0;
  if (labelled == 0) return;
  T *selected = shaped<T>(s.selected, {labelled, h}), *logits = shaped<T>(s.logits, {labelled, columns});
  clock_.run("logits", -1, pass.micro, [&] {
    for (std::int64_t n = 0; n < labelled; ++n) std::copy_n(normed + s.rows[static_cast<std::size_t>(n)] * h, h, selected + n * h);
    local_product(nn::ComputeType::f32, Transpose::no, Transpose::yes, labelled, columns, h, selected, h, table.w(), h, T{0}, logits);
    nn::add_rows<T>(labelled, columns, 1, 0, bias.w(), logits);
  });
  if (pass.why == Pass::evaluate) count_right(pass, table.layout.rows(), s);
  const T scale = static_cast<T>(gradient_scale / static_cast<double>(labelled));
  if (tensor_.splits()) return split_loss(pass, table, scale, s);
  clock_.run("loss", -1, pass.micro, [&] {
    nn::cross_entropy<T>(labelled, columns, logits, s.labels.data(), scale, shaped<T>(s.losses, {labelled}));
    mean_loss(s);
  });
}

// Before the losses, which overwrite the logits. Of equal logits the first token's counts, on whatever rank.
template <typename T>
void MaskedHead<T>::count_right(const PassContext& pass, const AxisRange& mine, Saved& s) {
  const auto labelled = static_cast<std::int64_t>(s.rows.size());
  const std::int64_t valid = std::clamp<std::int64_t>(config_.vocab - mine.begin, 0, mine.count);
  T *best = shaped<T>(best_, {labelled, 2}), *all = best;  // logit, token
  clock_.run("masked accuracy", -1, pass.micro, [&] {
    for (std::int64_t n = 0; n < labelled; ++n) {
      const T *row = data_of<T>(s.logits) + n * mine.count, *at = std::max_element(row, row + valid);
      best[2 * n] = valid > 0 ? *at : -std::numeric_limits<T>::infinity();
      best[2 * n + 1] = static_cast<T>(mine.begin + (at - row));
    }
  });
  if (tensor_.splits()) tensor_.gather_statistics(pass, labelled, 2, best, all = shaped<T>(all_best_, {tensor_.size() * labelled, 2}));
  for (std::int64_t n = 0; n < labelled; ++n) {
    const T* largest = all + 2 * n;
    for (int rank = 1; rank < tensor_.size(); ++rank)
      if (const T* other = all + 2 * (rank * labelled + n); other[0] > largest[0]) largest = other;
    s.right += largest[1] == static_cast<T>(s.labels[static_cast<std::size_t>(n)]);
  }
}

template <typename T>
void MaskedHead<T>::mean_loss(Saved& s) {
  double sum = 0;
  for (const T loss : s.losses.template as<T>()) sum += static_cast<double>(loss);
  s.loss = sum / static_cast<double>(s.losses.elements());
}

// As TiedHead::split_loss (models/layers/embedding.cpp).
template <typename T>
void MaskedHead<T>::split_loss(const PassContext& pass, const Parameter<T>& table, T scale, Saved& s) {
  const auto labelled = static_cast<std::int64_t>(s.rows.size());
  const AxisRange mine = table.layout.rows();
  const std::int64_t valid = std::clamp<std::int64_t>(config_.vocab - mine.begin, 0, mine.count);  // padding has no share
  T *logits = data_of<T>(s.logits), *statistics = shaped<T>(statistics_, {labelled, 3}), *all = shaped<T>(all_statistics_, {tensor_.size() * labelled, 3});
  clock_.run("softmax statistics", -1, pass.micro, [&] {
    nn::softmax_statistics<T>(labelled, mine.count, valid, mine.begin, config_.vocab, logits, s.labels.data(), statistics);
  });
  tensor_.gather_statistics(pass, labelled, 3, statistics, all);
  clock_.run("loss", -1, pass.micro, [&] {
    nn::split_cross_entropy<T>(labelled, mine.count, valid, mine.begin, tensor_.size(), all, s.labels.data(), scale, logits, shaped<T>(s.losses, {labelled}));
    mean_loss(s);
  });
}

template <typename T>
void MaskedHead<T>::backward(const PassContext& pass, const T* x, Parameter<T>& table, Saved& s, T* dx) {
  const std::int64_t rows = pass.rows(), own = tensor_.own_rows(rows).count, h = config_.hidden, columns = table.layout.rows().count;
  const auto labelled = static_cast<std::int64_t>(s.rows.size());
  T* partial = shaped<T>(partial_, {rows, h});
  T* own_gradient = tensor_.sequence_parallel() ? shaped<T>(own_, {own, h}) : partial;
  partial_.fill_zero();
  const T* dlogits = labelled > 0 ? data_of<T>(s.logits) : nullptr;
  clock_.run("head backward", -1, pass.micro, [&] {
    if (labelled == 0) return;
    T* selected = shaped<T>(selected_gradient_, {labelled, h});
    local_product(nn::ComputeType::f32, Transpose::no, Transpose::no, labelled, h, columns, dlogits, columns, table.w(), h, T{0}, selected);
    for (std::int64_t n = 0; n < labelled; ++n) std::copy_n(selected + n * h, h, partial + s.rows[static_cast<std::size_t>(n)] * h);
  });
  Operation sum = tensor_.start_sum_input_gradient(pass, "head", layer_, rows, h, partial, own_gradient);
  clock_.run("table gradient", -1, pass.micro, [&] {
    if (labelled == 0) return;
    local_product(nn::ComputeType::f32, Transpose::yes, Transpose::no, columns, h, labelled, dlogits, columns, data_of<T>(s.selected), h, T{1}, table.g());
    nn::add_column_sums<T>(labelled, columns, dlogits, bias.g());
  });
  tensor_.finish_sum_input_gradient(std::move(sum), pass, "head", layer_, rows, h, own_gradient);
  clock_.run("head dense backward", -1, pass.micro, [&] {
    T* wide = shaped<T>(wide_, {own, h});
    const T* projected = data_of<T>(s.dense);
    norm.backward(own, data_of<T>(s.activated), own_gradient, s.norm, wide);
    config_.exact_gelu ? nn::gelu_erf_backward<T>(own * h, projected, wide, wide) : nn::gelu_backward<T>(own * h, projected, wide, wide);
    dense.backward(own, x, wide, dx);
  });
}

template class MaskedHead<float>;
template class MaskedHead<double>;

}  // namespace thinwire
