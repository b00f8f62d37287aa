#include "models/bert/sequence_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
#include "kernels/nn/elementwise.h"

namespace thinwire {
namespace {

constexpr const char* input_name = "head.pooler";

}  // namespace

template <typename T>
SequenceHead<T>::SequenceHead(const BertConfig& c, const LayerRuntime<T>& runtime)
    : pooler(column_parallel("head.pooler", c.hidden, c.hidden, runtime.tensor->size(), runtime.tensor->rank()), c.seed, 0.02, c.compute),
      classifier(row_parallel("head.classifier", c.hidden, c.outputs(), runtime.tensor->size(), runtime.tensor->rank()), c.seed, 0.02, c.compute),
      config_(c),
      layer_(static_cast<int>(c.layers) - 1),
      tensor_(*runtime.tensor),
      clock_(*runtime.clock) {}

template <typename T>
void SequenceHead<T>::drop(const PassContext& pass, T* x) const {
  if (!pass.train || config_.dropout == 0 || config_.task == BertTask::pretraining) return;
  const std::int64_t columns = pooler.out(), first_column = pooler.weight.layout.columns().begin;
  nn::dropout_rows<T>(pass.batch, columns, config_.hidden, config_.dropout, {config_.seed, "head.dropout", pass.step},
                      pass.first_sample * config_.hidden + first_column, x, x);
}

template <typename T>
void SequenceHead<T>::forward(const PassContext& pass, const T* x, double gradient_scale, Saved& s) {
  const std::int64_t rows = pass.rows(), batch = pass.batch, h = config_.hidden, columns = pooler.out(), outputs = config_.outputs();
  const T* states = x;
  if (tensor_.sequence_parallel()) {
    T* all = shaped<T>(s.states, {rows, h});
    tensor_.gather_input(pass, input_name, layer_, rows, h, x, all);
    states = all;
  }
  T *first = shaped<T>(s.first, {batch, h}), *pooled = shaped<T>(s.pooled, {batch, columns}), *dropped = shaped<T>(s.dropped, {batch, columns});
  T *logits = shaped<T>(s.logits, {batch, outputs}), *partial = tensor_.splits() ? shaped<T>(partial_logits_, {batch, outputs}) : logits;
  clock_.run("pooler", -1, pass.micro, [&] {
    nn::copy_rows<T>(batch, h, states, pass.seq * h, first, h);
    pooler.forward(batch, first, pooled);
    for (std::int64_t i = 0; i < batch * columns; ++i) pooled[i] = std::tanh(pooled[i]);
    std::copy_n(pooled, batch * columns, dropped);
    drop(pass, dropped);
    classifier.partial(batch, dropped, partial);
  });
  if (tensor_.splits()) {
    T* all = shaped<T>(all_logits_, {tensor_.size() * batch, outputs});
    tensor_.gather_statistics(pass, batch, outputs, partial, all);
    std::copy_n(all, batch * outputs, logits);
    for (int rank = 1; rank < tensor_.size(); ++rank) nn::add_into<T>(batch * outputs, all + rank * batch * outputs, logits);
  }
  clock_.run("sequence loss", -1, pass.micro, [&] {
    classifier.add_bias(batch, logits);
    config_.task == BertTask::regression ? number_loss(gradient_scale, batch, s) : class_loss(gradient_scale, batch, s);
  });
}

template <typename T>
void SequenceHead<T>::class_loss(double gradient_scale, std::int64_t batch, Saved& s) const {
  const std::int64_t classes = config_.outputs();
  const T scale = static_cast<T>(gradient_scale / s.divisor);
  double sum = 0;
  s.right = s.labelled = 0;
  s.predicted.resize(static_cast<std::size_t>(batch));
  for (std::int64_t b = 0; b < batch; ++b) {
    T* row = data_of<T>(s.logits) + b * classes;
    const std::int32_t label = s.labels.classes[static_cast<std::size_t>(b)];
    if (label < -1 || label >= classes)
      throw CorruptData("Label " + std::to_string(label) + " of sample " + std::to_string(b) + " is none of the " + std::to_string(classes) +
                        " classes. Check the labels, or classes=.");
    const auto best = std::max_element(row, row + classes);
    // Among NaN the largest is whatever stands first, which would look like a class.
    const bool finite = std::all_of(row, row + classes, [](T logit) { return std::isfinite(logit); });
    s.predicted[static_cast<std::size_t>(b)] = finite ? static_cast<double>(best - row) : std::numeric_limits<double>::quiet_NaN();
    if (label == -1) {
      std::fill_n(row, classes, T{0});
      continue;
    }
    s.right += finite && label == best - row;
    s.labelled += 1;
    const T largest = *best, of_label = row[label];
    T total = 0;
    for (std::int64_t k = 0; k < classes; ++k) total += row[k] = std::exp(row[k] - largest);
    sum += static_cast<double>(largest + std::log(total) - of_label);
    for (std::int64_t k = 0; k < classes; ++k) row[k] = scale * (row[k] / total - (k == label ? T{1} : T{0}));
  }
  s.loss = s.labelled > 0 ? sum / s.divisor : 0;
}

template <typename T>
void SequenceHead<T>::number_loss(double gradient_scale, std::int64_t batch, Saved& s) const {
  const T scale = static_cast<T>(2 * gradient_scale / s.divisor);
  T* logits = data_of<T>(s.logits);
  double sum = 0;
  s.predicted.assign(logits, logits + batch);
  for (std::int64_t b = 0; b < batch; ++b) {
    const float label = s.labels.numbers[static_cast<std::size_t>(b)];
    const T error = std::isnan(label) ? T{0} : logits[b] - static_cast<T>(label);
    sum += static_cast<double>(error) * static_cast<double>(error);
    logits[b] = scale * error;
  }
  s.loss = sum / s.divisor;
}

template <typename T>
void SequenceHead<T>::backward(const PassContext& pass, Saved& s, T* dx) {
  const std::int64_t rows = pass.rows(), own = tensor_.own_rows(rows).count, batch = pass.batch, h = config_.hidden, columns = pooler.out();
  T *pooled_gradient = shaped<T>(pooled_gradient_, {batch, columns}), *first_gradient = shaped<T>(first_gradient_, {batch, h}), *partial = shaped<T>(partial_, {rows, h});
  T* own_gradient = tensor_.sequence_parallel() ? shaped<T>(own_, {own, h}) : partial;
  const T *dlogits = data_of<T>(s.logits), *pooled = data_of<T>(s.pooled);
  clock_.run("pooler backward", -1, pass.micro, [&] {
    // The bias is whole on every rank; with sequence parallelism gradients of such parameters are summed over the ranks, so that one adds it.
    if (!tensor_.sequence_parallel() || tensor_.rank() == 0) classifier.bias_gradient(batch, dlogits);
    classifier.weight_gradient(batch, data_of<T>(s.dropped), dlogits);
    classifier.input_gradient(batch, dlogits, pooled_gradient);
    drop(pass, pooled_gradient);
    for (std::int64_t i = 0; i < batch * columns; ++i) pooled_gradient[i] *= T{1} - pooled[i] * pooled[i];
    pooler.backward(batch, data_of<T>(s.first), pooled_gradient, first_gradient);
    partial_.fill_zero();
    nn::copy_rows<T>(batch, h, first_gradient, h, partial, pass.seq * h);
  });
  tensor_.finish_sum_input_gradient(tensor_.start_sum_input_gradient(pass, input_name, layer_, rows, h, partial, own_gradient), pass, input_name, layer_, rows, h,
                                    own_gradient);
  clock_.run("pooler backward add", -1, pass.micro, [&] { nn::add_into<T>(own * h, own_gradient, dx); });
}

template class SequenceHead<float>;
template class SequenceHead<double>;

}  // namespace thinwire
