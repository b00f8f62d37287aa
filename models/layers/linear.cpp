#include "models/layers/linear.h"

#include <type_traits>

#include "core/device/placement.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/gemm/packed_weight.h"
#include "models/layers/local_product.h"

namespace thinwire {

using nn::Transpose;

template <typename T>
Linear<T>::Linear(const LinearLayouts& layouts, std::uint64_t seed, double deviation, nn::ComputeType compute)
    : weight(layouts.weight, true, normal_rows(seed, deviation)), bias(layouts.bias, false), compute_(compute) {}

namespace {

/// Whether a scope keeps this rank's W packed: where products are in bf16 on the host. A store that lends values (zero stage 3) takes
/// their memory away after each use: packed copies would keep what it is there to save, and the place may be another's next. Its matrices alone still say
/// how they begin (Parameter::initialise): stores that keep values whole take that away (make_values).
template <typename T>
bool is_packed(nn::ComputeType compute, const Parameter<T>& weight) {
  return std::is_same_v<T, float> && compute == nn::ComputeType::bf16 && !weight.initialise && nn::PackedWeightsScope::current() != nullptr && placement().on_host();
}

/// Y [rows, n] = X op(W) + beta Y where is_packed.
template <typename T>
void times_packed(const Parameter<T>& weight, Transpose tw, std::int64_t rows, std::int64_t n, std::int64_t k, const T* x, T beta, T* y) {
  if constexpr (std::is_same_v<T, float>) nn::gemm_packed(tw, rows, n, k, x, k, weight.w(), weight.layout.columns().count, beta, y);
}

}  // namespace

template <typename T>
void Linear<T>::forward(std::int64_t rows, const T* x, T* y) const {
  if (is_packed(compute_, weight)) {
    nn::fill_rows<T>(rows, out(), bias.w(), y);
    return times_packed(weight, Transpose::no, rows, out(), in(), x, T{1}, y);
  }
  nn::gemm_with_bias<T>(compute_, Transpose::no, Transpose::no, rows, out(), in(), x, in(), weight.w(), out(), bias.w(), y);
}

template <typename T>
void Linear<T>::partial(std::int64_t rows, const T* x, T* y) const {
  if (is_packed(compute_, weight)) return times_packed(weight, Transpose::no, rows, out(), in(), x, T{0}, y);
  local_product(compute_, Transpose::no, Transpose::no, rows, out(), in(), x, in(), weight.w(), out(), T{0}, y);
}

template <typename T>
void Linear<T>::add_bias(std::int64_t rows, T* y) const {
  nn::add_rows<T>(rows, out(), 1, 0, bias.w(), y);
}

template <typename T>
void Linear<T>::input_gradient(std::int64_t rows, const T* dy, T* dx) const {
  if (is_packed(compute_, weight)) return times_packed(weight, Transpose::yes, rows, in(), out(), dy, T{0}, dx);
  local_product(compute_, Transpose::no, Transpose::yes, rows, in(), out(), dy, out(), weight.w(), out(), T{0}, dx);
}

template <typename T>
void Linear<T>::weight_gradient(std::int64_t rows, const T* x, const T* dy) {
  local_product(compute_, Transpose::yes, Transpose::no, in(), out(), rows, x, in(), dy, out(), T{1}, weight.g());
}

template <typename T>
void Linear<T>::bias_gradient(std::int64_t rows, const T* dy) {
  nn::add_column_sums<T>(rows, out(), dy, bias.g());
}

template <typename T>
void Linear<T>::backward(std::int64_t rows, const T* x, const T* dy, T* dx) {
  input_gradient(rows, dy, dx);
  weight_gradient(rows, x, dy);
  bias_gradient(rows, dy);
}

template class Linear<float>;
template class Linear<double>;

}  // namespace thinwire
