#include "models/layers/linear.h"

#include "kernels/nn/elementwise.h"
#include "models/layers/local_product.h"

namespace thinwire {

using nn::Transpose;

template <typename T>
Linear<T>::Linear(const LinearLayouts& layouts, std::uint64_t seed, double deviation, nn::ComputeType compute)
    : weight(layouts.weight, true, normal_rows(seed, deviation)), bias(layouts.bias, false), compute_(compute) {}

template <typename T>
void Linear<T>::forward(std::int64_t rows, const T* x, T* y) const {
  nn::gemm_with_bias<T>(compute_, Transpose::no, Transpose::no, rows, out(), in(), x, in(), weight.w(), out(), bias.w(), y);
}

template <typename T>
void Linear<T>::partial(std::int64_t rows, const T* x, T* y) const {
  local_product(compute_, Transpose::no, Transpose::no, rows, out(), in(), x, in(), weight.w(), out(), T{0}, y);
}

template <typename T>
void Linear<T>::add_bias(std::int64_t rows, T* y) const {
  nn::add_rows<T>(rows, out(), 1, 0, bias.w(), y);
}

template <typename T>
void Linear<T>::input_gradient(std::int64_t rows, const T* dy, T* dx) const {
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
