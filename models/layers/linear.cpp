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

/// Whether a scope keeps this rank's W packed, where products round. A store that lends values (zero stage 3) takes
/// their memory away after each use: packed copies would keep what it is there to save, and the place may be another's next. Its matrices alone still say
/// how they begin (Parameter::initialise): stores that keep values whole take that away (make_values).
template <typename T>
bool is_packed(const Parameter<T>& weight) {
  return !weight.initialise && nn::PackedWeightsScope::current() != nullptr;
}

nn::Bf16Operand operand(Operand<float> x, std::int64_t columns) { return {x.values, columns, x.rounded}; }

/// Y [rows, n] = X op(W) on the host in bf16, with the packed weight where there is one.
template <typename T>
void multiply_rounded(bool packed, const Parameter<T>& weight, Transpose tw, std::int64_t rows, std::int64_t n, std::int64_t k, Operand<T> x,
                      const nn::Bf16Result& y) {
  if constexpr (std::is_same_v<T, float>) {
    const std::int64_t ldw = weight.layout.columns().count;
    if (packed) return nn::gemm_packed(tw, rows, n, k, operand(x, k), weight.w(), ldw, y);
    nn::gemm_bf16(Transpose::no, tw, rows, n, k, operand(x, k), {weight.w(), ldw}, y);
  }
}

template <typename T>
nn::Bf16Result in_f32(T* y, float beta) {
  if constexpr (std::is_same_v<T, float>) return {y, beta};
  return {};
}

}  // namespace

template <typename T>
bool Linear<T>::rounds() const {
  return std::is_same_v<T, float> && compute_ == nn::ComputeType::bf16 && placement().on_host();
}

template <typename T>
void Linear<T>::forward(std::int64_t rows, Operand<T> x, T* y) const {
  if (rounds()) {
    nn::fill_rows<T>(rows, out(), bias.w(), y);
    return multiply_rounded(is_packed(weight), weight, Transpose::no, rows, out(), in(), x, in_f32(y, 1));
  }
  nn::gemm_with_bias<T>(compute_, Transpose::no, Transpose::no, rows, out(), in(), x.values, in(), weight.w(), out(), bias.w(), y);
}

template <typename T>
void Linear<T>::forward(std::int64_t rows, Operand<T> x, BFloat16* y) const {
  TW_ASSERT(rounds());
  nn::Bf16Result result{nullptr, 0, y};
  if constexpr (std::is_same_v<T, float>) result.bias = bias.w();
  multiply_rounded(is_packed(weight), weight, Transpose::no, rows, out(), in(), x, result);
}

template <typename T>
void Linear<T>::partial(std::int64_t rows, Operand<T> x, T* y) const {
  if (rounds()) return multiply_rounded(is_packed(weight), weight, Transpose::no, rows, out(), in(), x, in_f32(y, 0));
  local_product(compute_, Transpose::no, Transpose::no, rows, out(), in(), x.values, in(), weight.w(), out(), T{0}, y);
}

template <typename T>
void Linear<T>::add_bias(std::int64_t rows, T* y) const {
  nn::add_rows<T>(rows, out(), 1, 0, bias.w(), y);
}

template <typename T>
void Linear<T>::input_gradient(std::int64_t rows, Operand<T> dy, T* dx) const {
  if (rounds()) return multiply_rounded(is_packed(weight), weight, Transpose::yes, rows, in(), out(), dy, in_f32(dx, 0));
  local_product(compute_, Transpose::no, Transpose::yes, rows, in(), out(), dy.values, out(), weight.w(), out(), T{0}, dx);
}

template <typename T>
void Linear<T>::weight_gradient(std::int64_t rows, Operand<T> x, Operand<T> dy) {
  if constexpr (std::is_same_v<T, float>)
    if (rounds()) return nn::gemm_bf16(Transpose::yes, Transpose::no, in(), out(), rows, operand(x, in()), operand(dy, out()), {weight.g(), 1});
  local_product(compute_, Transpose::yes, Transpose::no, in(), out(), rows, x.values, in(), dy.values, out(), T{1}, weight.g());
}

template <typename T>
void Linear<T>::bias_gradient(std::int64_t rows, const T* dy) {
  nn::add_column_sums<T>(rows, out(), dy, bias.g());
}

template <typename T>
void Linear<T>::backward(std::int64_t rows, Operand<T> x, const T* dy, T* dx) {
  input_gradient(rows, dy, dx);
  weight_gradient(rows, x, dy);
  bias_gradient(rows, dy);
}

template class Linear<float>;
template class Linear<double>;

}  // namespace thinwire
