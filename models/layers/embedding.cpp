#include "models/layers/embedding.h"

#include <algorithm>
#include <cmath>

#include "kernels/nn/elementwise.h"
#include "kernels/nn/softmax.h"
#include "kernels/nn/sums.h"
#include "models/layers/local_product.h"

namespace thinwire {

using nn::Transpose;

std::int64_t padded_vocabulary(std::int64_t vocab, int ranks) {
  if (ranks == 1) return vocab;
  const std::int64_t multiple = 8 * ranks;
  return (vocab + multiple - 1) / multiple * multiple;
}

RowInitialiser token_rows(std::uint64_t seed) {
  return [=](const ParameterLayout& layout, std::int64_t first_row, TensorView to) {
    initialise_normal(layout, seed, 0.02, to, first_row);
    const std::int64_t columns = layout.columns().count, rows = to.elements() / columns;
    const std::int64_t valid = std::clamp<std::int64_t>(layout.used().rows() - layout.rows().begin - first_row, 0, rows);
    const TensorView padding = to.flat_slice(valid * columns, (rows - valid) * columns);
    fill_zero_bytes(padding.data(), padding.bytes());
  };
}

template <typename T>
Parameter<T> token_table(std::int64_t vocab, std::int64_t hidden, std::uint64_t seed, const TensorParallel<T>& tensor,
                         const SplitGroups& copies, const std::string& name) {
  const SplitGroups rows = tensor.splits() ? SplitGroups{tensor.group()} : SplitGroups{};
  return {ParameterLayout(name, {padded_vocabulary(vocab, tensor.size()), hidden}, rows, {}, copies).padded_after(vocab), true, token_rows(seed)};
}

template <typename T>
Embedding<T>::Embedding(std::int64_t vocab, std::int64_t max_seq, std::int64_t hidden, std::uint64_t seed, const LayerRuntime<T>& runtime,
                        double position_deviation)
    : position(ParameterLayout("embedding.position", {max_seq, hidden}, {}, {},
                               runtime.tensor->splits() ? SplitGroups{runtime.tensor->group()} : SplitGroups{}),
               true, normal_rows(seed, position_deviation)),
      vocab_(vocab),
      hidden_(hidden),
      tensor_(*runtime.tensor),
      clock_(*runtime.clock) {}

template <typename T>
void Embedding<T>::forward(const PassContext& pass, const std::int32_t* tokens, const Parameter<T>& table, T* y) {
  const std::int64_t rows = pass.rows();
  if (!tensor_.splits()) {
    clock_.run("embedding", -1, pass.micro, [&] { nn::embed<T>(rows, hidden_, pass.seq, vocab_, tokens, table.w(), position.w() + pass.first_token * hidden_, y); });
    return;
  }
  const AxisRange mine = table.layout.rows();
  T* partial = tensor_.sequence_parallel() ? shaped<T>(all_, {rows, hidden_}) : y;
  clock_.run("embedding", -1, pass.micro, [&] {
    nn::embed_part<T>(rows, hidden_, vocab_, mine.begin, mine.count, tokens, table.w(), partial);
  });
  tensor_.sum_look_up(pass, rows, hidden_, partial, y);
  const RowBlock own = tensor_.own_rows(rows);
  clock_.run("positions", -1, pass.micro, [&] {
    nn::add_rows<T>(own.count, hidden_, pass.seq, own.first, position.w() + pass.first_token * hidden_, y);
  });
}

template <typename T>
void Embedding<T>::backward(const PassContext& pass, const std::int32_t* tokens, const Parameter<T>& table, const T* dy,
                            T* token_gradient) {
  const std::int64_t rows = pass.rows();
  if (!tensor_.splits()) {
    clock_.run("embedding backward", -1, pass.micro,
               [&] { nn::embed_backward<T>(rows, hidden_, pass.seq, vocab_, tokens, dy, token_gradient, position.g() + pass.first_token * hidden_); });
    return;
  }
  const RowBlock own = tensor_.own_rows(rows);
  const T* all = dy;
  if (tensor_.sequence_parallel()) {
    T* gathered = shaped<T>(all_, {rows, hidden_});
    tensor_.gather_look_up_gradient(pass, rows, hidden_, dy, gathered);
    all = gathered;
  }
  const AxisRange mine = table.layout.rows();
  clock_.run("embedding backward", -1, pass.micro, [&] {
    nn::embed_part_backward<T>(rows, hidden_, mine.begin, mine.count, tokens, all, token_gradient);
    nn::add_rows_gradient<T>(own.count, hidden_, pass.seq, own.first, dy, position.g() + pass.first_token * hidden_);
  });
}

template <typename T>
TiedHead<T>::TiedHead(std::int64_t vocab, std::int64_t hidden, int layers, const LayerRuntime<T>& runtime, nn::ComputeType compute)
    : norm("head.norm", hidden, Layout::replicated(), runtime.tensor->splits() ? SplitGroups{runtime.tensor->group()} : SplitGroups{}),
      vocab_(vocab),
      hidden_(hidden),
      layer_(layers - 1),
      compute_(placement().on_host() ? nn::ComputeType::f32 : compute),
      tensor_(*runtime.tensor),
      clock_(*runtime.clock) {}

template <typename T>
void TiedHead<T>::forward(const PassContext& pass, const T* x, const Parameter<T>& table, const std::int32_t* targets,
                          double gradient_scale, Saved& s) {
  const std::int64_t rows = pass.rows(), own = tensor_.own_rows(rows).count, columns = table.layout.rows().count;
  const T scale = static_cast<T>(gradient_scale / static_cast<double>(rows));
  T* normed = shaped<T>(s.normed, {rows, hidden_});
  T* own_normed = tensor_.sequence_parallel() ? shaped<T>(own_, {own, hidden_}) : normed;
  clock_.run("head norm", -1, pass.micro, [&] { norm.forward(own, x, own_normed, s.norm); });
  tensor_.gather_input(pass, "head", layer_, rows, hidden_, own_normed, normed);
  T* logits = shaped<T>(s.logits, {rows, columns});
  const auto multiply = [&] {
    local_product(compute_, Transpose::no, Transpose::yes, rows, columns, hidden_, normed, hidden_, table.w(), hidden_, T{0}, logits);
  };
  if (tensor_.splits()) {
    clock_.run("logits", -1, pass.micro, multiply);
    return split_loss(pass, table, targets, scale, s);
  }
  clock_.run("logits", -1, pass.micro, [&] {
    multiply();
    T* losses = shaped<T>(s.losses, {rows});
    nn::cross_entropy<T>(rows, columns, logits, targets, scale, losses);
    mean_loss(rows, losses, s);
  });
}

template <typename T>
void TiedHead<T>::mean_loss(std::int64_t rows, const T* losses, Saved& s) {
  double* loss = shaped<double>(s.loss, {1});
  s.loss.fill_zero();
  nn::add_total<T, double>(rows, losses, 1.0, static_cast<double>(rows), loss);
}

// Every rank holds some columns of the logits. One exchange of (maximum, sum of exponentials, logit of the target) per row
// gives all of them loss and gradient.
template <typename T>
void TiedHead<T>::split_loss(const PassContext& pass, const Parameter<T>& table, const std::int32_t* targets, T scale, Saved& s) {
  const std::int64_t rows = pass.rows();
  const AxisRange mine = table.layout.rows();
  const std::int64_t valid = std::clamp<std::int64_t>(vocab_ - mine.begin, 0, mine.count);  // padding has no share
  T* logits = data_of<T>(s.logits);
  T* statistics = shaped<T>(statistics_, {rows, 3});
  T* all = shaped<T>(all_statistics_, {tensor_.size() * rows, 3});
  clock_.run("softmax statistics", -1, pass.micro, [&] {
    nn::softmax_statistics<T>(rows, mine.count, valid, mine.begin, vocab_, logits, targets, statistics);
  });
  tensor_.gather_statistics(pass, rows, 3, statistics, all);
  clock_.run("loss", -1, pass.micro, [&] {
    T* losses = shaped<T>(s.losses, {rows});
    nn::split_cross_entropy<T>(rows, mine.count, valid, mine.begin, tensor_.size(), all, targets, scale, logits, losses);
    mean_loss(rows, losses, s);
  });
}

template <typename T>
void TiedHead<T>::backward(const PassContext& pass, const T* x, const Parameter<T>& table, const Saved& s, Tensor& scratch, T* dx) {
  const std::int64_t rows = pass.rows(), own = tensor_.own_rows(rows).count, columns = table.layout.rows().count;
  const T *dlogits = data_of<T>(s.logits), *normed = data_of<T>(s.normed);
  T* partial = shaped<T>(scratch, {rows, hidden_});
  T* own_gradient = tensor_.sequence_parallel() ? shaped<T>(own_, {own, hidden_}) : partial;
  clock_.run("head backward", -1, pass.micro, [&] {
    local_product(compute_, Transpose::no, Transpose::no, rows, hidden_, columns, dlogits, columns, table.w(), hidden_, T{0}, partial);
  });
  Operation sum = tensor_.start_sum_input_gradient(pass, "head", layer_, rows, hidden_, partial, own_gradient);
  T* dtable = shaped<T>(table_gradient, {columns, hidden_});
  clock_.run("table gradient", -1, pass.micro, [&] {
    local_product(compute_, Transpose::yes, Transpose::no, columns, hidden_, rows, dlogits, columns, normed, hidden_, T{0}, dtable);
  });
  tensor_.finish_sum_input_gradient(std::move(sum), pass, "head", layer_, rows, hidden_, own_gradient);
  clock_.run("head norm backward", -1, pass.micro, [&] {
    fill_zero_bytes(dx, static_cast<std::size_t>(own * hidden_) * sizeof(T));
    norm.backward_add(own, x, own_gradient, s.norm, dx);
  });
}

template Parameter<float> token_table<float>(std::int64_t, std::int64_t, std::uint64_t, const TensorParallel<float>&, const SplitGroups&, const std::string&);
template Parameter<double> token_table<double>(std::int64_t, std::int64_t, std::uint64_t, const TensorParallel<double>&, const SplitGroups&, const std::string&);
template class Embedding<float>;
template class Embedding<double>;
template class TiedHead<float>;
template class TiedHead<double>;

}  // namespace thinwire
