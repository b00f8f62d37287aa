#include "kernels/nn/gelu.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/simd_targets.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/gelu.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "kernels/nn/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::nn::HWY_NAMESPACE {

constexpr double two_sqrt_2_over_pi = 1.5957691216057308;
constexpr double cubic = 0.044715;

template <class D, class V>
V gelu_sigmoid(D d, V x) {
  using T = hn::TFromD<D>;
  const V u2 = hn::Mul(hn::Mul(hn::Set(d, static_cast<T>(two_sqrt_2_over_pi)), x),
                       hn::MulAdd(hn::Mul(x, x), hn::Set(d, static_cast<T>(cubic)), hn::Set(d, T{1})));
  // Highway's Exp wraps around above its range; exp(-80) is already 0 beside 1 in f32, exp(-700) in f64.
  const V exponent = hn::Min(hn::Neg(u2), hn::Set(d, sizeof(T) == 4 ? T(80) : T(700)));
  return hn::Div(hn::Set(d, T{1}), hn::Add(hn::Set(d, T{1}), hn::Exp(d, exponent)));
}

template <typename T>
void forward(std::int64_t count, const T* x, T* y) {
  transform(count, x, y, [](auto d, auto v) { return hn::Mul(v, gelu_sigmoid(d, v)); });
}
template <typename T>
void backward(std::int64_t count, const T* x, const T* dy, T* dx) {
  transform(count, x, dy, dx, [](auto d, auto v, auto g) {
    const auto one = hn::Set(d, T{1});
    const auto s = gelu_sigmoid(d, v);
    // d(2u)/dx * x = 2 sqrt(2/pi) (x + 3 * 0.044715 x^3)
    const auto slope = hn::Mul(hn::Mul(hn::Set(d, static_cast<T>(two_sqrt_2_over_pi)), v),
                               hn::MulAdd(hn::Mul(v, v), hn::Set(d, static_cast<T>(3 * cubic)), one));
    return hn::Mul(g, hn::Mul(s, hn::MulAdd(slope, hn::Sub(one, s), one)));
  });
}

void forward_f32(std::int64_t n, const float* x, float* y) {
  forward(n, x, y);
}
void forward_f64(std::int64_t n, const double* x, double* y) {
  forward(n, x, y);
}
void backward_f32(std::int64_t n, const float* x, const float* dy, float* dx) {
  backward(n, x, dy, dx);
}
void backward_f64(std::int64_t n, const double* x, const double* dy, double* dx) {
  backward(n, x, dy, dx);
}

}  // namespace thinwire::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::nn {
HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_f64);
HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_f64);

template <typename T>
void gelu_forward(std::int64_t count, const T* x, T* y) {
  if (device::on_device()) return device::queue<T>(device::entries().gelu_forward, device_f32, count, x, y);
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (sizeof(T) == 4)
      HWY_DYNAMIC_DISPATCH(forward_f32)(end - begin, x + begin, y + begin);
    else
      HWY_DYNAMIC_DISPATCH(forward_f64)(end - begin, x + begin, y + begin);
  });
}
template <typename T>
void gelu_backward(std::int64_t count, const T* x, const T* dy, T* dx) {
  if (device::on_device()) return device::queue<T>(device::entries().gelu_backward, device_f32, count, x, dy, dx);
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (sizeof(T) == 4)
      HWY_DYNAMIC_DISPATCH(backward_f32)(end - begin, x + begin, dy + begin, dx + begin);
    else
      HWY_DYNAMIC_DISPATCH(backward_f64)(end - begin, x + begin, dy + begin, dx + begin);
  });
}
template void gelu_forward<float>(std::int64_t, const float*, float*);
template void gelu_forward<double>(std::int64_t, const double*, double*);
template void gelu_backward<float>(std::int64_t, const float*, const float*, float*);
template void gelu_backward<double>(std::int64_t, const double*, const double*, double*);

namespace {

template <typename T>
T cumulative(T x) {
  return std::erfc(-x * static_cast<T>(0.70710678118654752440)) / 2;  // erfc: 1 + erf cancels for large negative x
}

template <typename T>
T density(T x) {
  return static_cast<T>(0.39894228040143267794) * std::exp(-x * x / 2);
}

void check_host() {
  if (device::on_device()) throw UsageError("The exact GELU has no form for devices yet; use the host (--device host), or the tanh form");
}

}  // namespace

template <typename T>
void gelu_erf_forward(std::int64_t count, const T* x, T* y) {
  check_host();
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] * cumulative(x[i]);
  });
}

template <typename T>
void gelu_erf_backward(std::int64_t count, const T* x, const T* dy, T* dx) {
  check_host();
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) dx[i] = dy[i] * (cumulative(x[i]) + x[i] * density(x[i]));
  });
}

template void gelu_erf_forward<float>(std::int64_t, const float*, float*);
template void gelu_erf_forward<double>(std::int64_t, const double*, double*);
template void gelu_erf_backward<float>(std::int64_t, const float*, const float*, float*);
template void gelu_erf_backward<double>(std::int64_t, const double*, const double*, double*);

}  // namespace thinwire::nn
#endif
