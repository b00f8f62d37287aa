#include "models/layers/linear.h"

#include "kernels/nn/elementwise.h"

namespace thinwire {
namespace {

using nn::Transpose;

/// f64 has one compute type; f32 has two.
void product(nn::ComputeType compute, Transpose ta, Transpose tb, std::int64_t m, std::int64_t n,
             std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
             float* c) {
  nn::gemm(compute, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, beta, c, n);
}
void product(nn::ComputeType, Transpose ta, Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
             const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c) {
  nn::gemm<double>(ta, tb, m, n, k, 1.0, a, lda, b, ldb, beta, c, n);
}

}  // namespace

template <typename T>
Linear<T>::Linear(const LinearLayouts& layouts, std::uint64_t seed, double deviation, nn::ComputeType compute)
    : weight(layouts.weight, true), bias(layouts.bias, false), compute_(compute) {
  initialise_normal(weight.layout, seed, deviation, weight.value.view());
}

template <typename T>
void Linear<T>::forward(std::int64_t rows, const T* x, T* y) {
  if (sum_output) {  // the bias is added once, after the sum
    product(compute_, Transpose::no, Transpose::no, rows, out(), in(), x, in(), weight.w(), out(), T{0}, y);
    sum_output({y, static_cast<std::size_t>(rows * out())});
    for (std::int64_t r = 0; r < rows; ++r) nn::add_into<T>(out(), bias.w(), y + r * out());
    return;
  }
  nn::fill_rows<T>(rows, out(), bias.w(), y);
  product(compute_, Transpose::no, Transpose::no, rows, out(), in(), x, in(), weight.w(), out(), T{1}, y);
}

template <typename T>
void Linear<T>::backward(std::int64_t rows, const T* x, const T* dy, T* dx) {
  product(compute_, Transpose::no, Transpose::yes, rows, in(), out(), dy, out(), weight.w(), out(), T{0}, dx);
  if (sum_input_gradient) sum_input_gradient({dx, static_cast<std::size_t>(rows * in())});
  product(compute_, Transpose::yes, Transpose::no, in(), out(), rows, x, in(), dy, out(), T{1}, weight.g());
  nn::add_column_sums<T>(rows, out(), dy, bias.g());
}

template class Linear<float>;
template class Linear<double>;

}  // namespace thinwire
