#include "kernels/nn/gelu.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/error.h"
#include "core/simd_targets.h"
#include "kernels/convert.h"
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

/// Phi(x) and phi(x) in f32 by one exponential: e = exp(-x^2 / 2), phi = e / sqrt(2 pi), and Phi(-|x|) = e/2 erfcx(|x| / sqrt(2)). Of erfcx, which falls
/// from 1 like 1/x, the polynomial in t = 1 / (1 + 0.45 |x| / sqrt(2)) is the least relative error's by weighted least squares (3.3e-8; with rounding
/// Phi is within 4e-7 of its value, in both tails).
struct Normal {
  hn::Vec<hn::ScalableTag<float>> cumulative, density;
};
HWY_INLINE Normal normal(hn::Vec<hn::ScalableTag<float>> x) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const auto a = hn::Min(hn::Abs(x), hn::Set(d, 20.0f));  // beyond it e is 0, and infinity would be NaN
  // exp sees the rounded square: at 13 its rounding alone would be 5e-6 of e (and is on targets without fused products, where `left` is 0).
  const auto square = hn::Mul(a, a), left = hn::MulSub(a, a, square);
  const auto rounded = hn::Exp(d, hn::Mul(square, hn::Set(d, -0.5f)));
  const auto e = hn::NegMulAdd(hn::Mul(rounded, half), left, rounded);
  const auto t = hn::Div(one, hn::MulAdd(a, hn::Set(d, 0.31819805f), one));
  auto q = hn::Set(d, -0.04139142709380851f);
  for (const float c : {0.19068923047645003f, -0.30058476566402476f, 0.14240300754367635f, -0.022358966345397396f, 0.11995072341072559f, 0.1752520834703788f,
                        0.22827164496919797f, 0.2538831627461572f, 0.25388532075111947f})
    q = hn::MulAdd(q, t, hn::Set(d, c));
  const auto tail = hn::Mul(hn::Mul(q, t), hn::Mul(e, half));
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), hn::Mul(e, hn::Set(d, 0.39894228040143267794f))};
}

void exact_forward_f32(std::int64_t n, const float* x, float* y) {
  transform(n, x, y, [](auto, auto v) { return hn::Mul(v, normal(v).cumulative); });
}
void exact_backward_f32(std::int64_t n, const float* x, const float* dy, float* dx) {
  transform(n, x, dy, dx, [](auto, auto v, auto g) {
    const Normal at = normal(v);
    return hn::Mul(g, hn::MulAdd(v, at.density, at.cumulative));
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
HWY_EXPORT(exact_forward_f32);
HWY_EXPORT(exact_backward_f32);

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

// f64 is what f32 is tested by: the library's functions.
double cumulative(double x) { return std::erfc(-x * 0.70710678118654752440) / 2; }  // erfc: 1 + erf cancels for large negative x
double density(double x) { return 0.39894228040143267794 * std::exp(-x * x / 2); }

void check_host() {
  if (device::on_device()) throw UsageError("The exact GELU has no form for devices yet; use the host (--device host), or the tanh form");
}

}  // namespace

template <typename T>
void gelu_erf_forward(std::int64_t count, const T* x, T* y) {
  check_host();
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (sizeof(T) == 4)
      HWY_DYNAMIC_DISPATCH(exact_forward_f32)(end - begin, x + begin, y + begin);
    else
      for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] * cumulative(x[i]);
  });
}

template <typename T>
void gelu_erf_backward(std::int64_t count, const T* x, const T* dy, T* dx) {
  check_host();
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (sizeof(T) == 4)
      HWY_DYNAMIC_DISPATCH(exact_backward_f32)(end - begin, x + begin, dy + begin, dx + begin);
    else
      for (std::int64_t i = begin; i < end; ++i) dx[i] = dy[i] * (cumulative(x[i]) + x[i] * density(x[i]));
  });
}

template void gelu_erf_forward<float>(std::int64_t, const float*, float*);
template void gelu_erf_forward<double>(std::int64_t, const double*, double*);
template void gelu_erf_backward<float>(std::int64_t, const float*, const float*, float*);
template void gelu_erf_backward<double>(std::int64_t, const double*, const double*, double*);

namespace {

/// f(count, x in f32, first) piece by piece, each small enough for the first-level cache.
template <typename F>
void by_pieces(std::int64_t count, const BFloat16* x, const F& f) {
  TW_ASSERT(!device::on_device());
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t piece = 1024;
    float wide[piece];
    for (std::int64_t i = begin; i < end; i += piece) {
      const auto n = static_cast<std::size_t>(std::min(piece, end - i));
      convert(std::span(x + i, n), std::span(wide, n));
      f(static_cast<std::int64_t>(n), wide, i);
    }
  });
}

/// `kernel`(count, x, y) of f32, on values in bf16.
template <typename Kernel>
void forward_rounded(std::int64_t count, const BFloat16* x, BFloat16* y, const Kernel& kernel) {
  by_pieces(count, x, [&](std::int64_t n, float* wide, std::int64_t first) {
    kernel(n, wide, wide);
    convert(std::span<const float>(wide, static_cast<std::size_t>(n)), std::span(y + first, static_cast<std::size_t>(n)));
  });
}

}  // namespace

void gelu_forward(std::int64_t count, const BFloat16* x, BFloat16* y) {
  forward_rounded(count, x, y, [](std::int64_t n, const float* from, float* to) { HWY_DYNAMIC_DISPATCH(forward_f32)(n, from, to); });
}
void gelu_erf_forward(std::int64_t count, const BFloat16* x, BFloat16* y) {
  forward_rounded(count, x, y, [](std::int64_t n, const float* from, float* to) { HWY_DYNAMIC_DISPATCH(exact_forward_f32)(n, from, to); });
}
void gelu_backward(std::int64_t count, const BFloat16* x, const float* dy, float* dx) {
  by_pieces(count, x, [&](std::int64_t n, const float* wide, std::int64_t first) { HWY_DYNAMIC_DISPATCH(backward_f32)(n, wide, dy + first, dx + first); });
}
void gelu_erf_backward(std::int64_t count, const BFloat16* x, const float* dy, float* dx) {
  by_pieces(count, x, [&](std::int64_t n, const float* wide, std::int64_t first) { HWY_DYNAMIC_DISPATCH(exact_backward_f32)(n, wide, dy + first, dx + first); });
}

}  // namespace thinwire::nn
#endif
