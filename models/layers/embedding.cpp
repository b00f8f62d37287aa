#include "models/layers/embedding.h"

#include <algorithm>

#include "kernels/nn/elementwise.h"
#include "kernels/nn/gemm.h"
#include "kernels/nn/softmax.h"

namespace thinwire {

using nn::Transpose;

template <typename T>
Embedding<T>::Embedding(std::int64_t vocab, std::int64_t max_seq, std::int64_t hidden, std::uint64_t seed)
    : token(ParameterLayout::whole("embedding.token", {vocab, hidden}), true),
      position(ParameterLayout::whole("embedding.position", {max_seq, hidden}), true) {
  initialise_normal(token.layout, seed, 0.02, token.value.view());
  // Positions start near 0: at the tokens' scale they would be half of the first layernorm's input, and short
  // trainings spend their first hundred steps on getting rid of that noise.
  initialise_normal(position.layout, seed, 0.002, position.value.view());
}

template <typename T>
void Embedding<T>::forward(std::int64_t rows, std::int64_t seq, const std::int32_t* tokens, T* y) const {
  nn::embed<T>(rows, token.value.shape()[1], seq, token.value.shape()[0], tokens, token.w(), position.w(), y);
}

template <typename T>
void Embedding<T>::backward(std::int64_t rows, std::int64_t seq, const std::int32_t* tokens, const T* dy,
                            T* token_gradient) {
  nn::embed_backward<T>(rows, token.value.shape()[1], seq, tokens, dy, token_gradient, position.g());
}

template <typename T>
TiedHead<T>::TiedHead(std::int64_t vocab, std::int64_t hidden, const Layout& layout)
    : norm("head.norm", hidden, layout), vocab_(vocab), hidden_(hidden) {}

template <typename T>
double TiedHead<T>::forward(std::int64_t rows, const T* x, const T* table, const std::int32_t* targets,
                            double gradient_scale, Saved& s) {
  T* normed = shaped<T>(s.normed, {rows, hidden_});
  norm.forward(rows, x, normed, s.norm);
  T* logits = shaped<T>(s.logits, {rows, vocab_});
  nn::gemm<T>(Transpose::no, Transpose::yes, rows, vocab_, hidden_, T{1}, normed, hidden_, table, hidden_,
              T{0}, logits, vocab_);
  T* losses = shaped<T>(s.losses, {rows});
  nn::cross_entropy<T>(rows, vocab_, logits, targets,
                       static_cast<T>(gradient_scale / static_cast<double>(rows)), losses);
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r) total += static_cast<double>(losses[r]);
  return total / static_cast<double>(rows);
}

template <typename T>
void TiedHead<T>::backward(std::int64_t rows, const T* x, const T* table, const Saved& s, Tensor& scratch,
                           T* dx) {
  const T *dlogits = data_of<T>(s.logits), *normed = data_of<T>(s.normed);
  T* dnormed = shaped<T>(scratch, {rows, hidden_});
  nn::gemm<T>(Transpose::no, Transpose::no, rows, hidden_, vocab_, T{1}, dlogits, vocab_, table, hidden_,
              T{0}, dnormed, hidden_);
  T* dtable = shaped<T>(table_gradient, {vocab_, hidden_});
  nn::gemm<T>(Transpose::yes, Transpose::no, vocab_, hidden_, rows, T{1}, dlogits, vocab_, normed, hidden_,
              T{0}, dtable, hidden_);
  std::fill(dx, dx + rows * hidden_, T{0});
  norm.backward_add(rows, x, dnormed, s.norm, dx);
}

template class Embedding<float>;
template class Embedding<double>;
template class TiedHead<float>;
template class TiedHead<double>;

}  // namespace thinwire
