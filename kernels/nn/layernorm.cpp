#include "kernels/nn/layernorm.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/simd_targets.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/layernorm.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "kernels/nn/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::nn::HWY_NAMESPACE {

template <typename T>
void moments(std::int64_t columns, const T* x, T* sums) {
  sums[0] = sum_of(columns, x, x, [](auto, auto v, auto) { return v; });
  sums[1] = sum_of(columns, x, x, [](auto, auto v, auto) { return hn::Mul(v, v); });
}

// The loops below are plain C++: inside this namespace the compiler vectorises them for the target at hand.
template <typename T>
void apply(std::int64_t columns, const T* HWY_RESTRICT x, T mean, T rstd, const T* HWY_RESTRICT gamma,
           const T* HWY_RESTRICT beta, T* HWY_RESTRICT y) {
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) y[c] = gamma[c] * ((x[c] - mean) * rstd) + beta[c];
}

template <typename T>
void row_gradient_moments(std::int64_t columns, const T* HWY_RESTRICT x, const T* HWY_RESTRICT dy,
                          const T* HWY_RESTRICT gamma, T mean, T rstd, T* sums) {
  T plain = 0, with_xhat = 0;
#pragma omp simd reduction(+ : plain, with_xhat)
  for (std::int64_t c = 0; c < columns; ++c) {
    const T g = dy[c] * gamma[c];
    plain += g;
    with_xhat += g * ((x[c] - mean) * rstd);
  }
  sums[0] = plain;
  sums[1] = with_xhat;
}

template <typename T>
void row_gradient(std::int64_t columns, const T* HWY_RESTRICT x, const T* HWY_RESTRICT dy,
                  const T* HWY_RESTRICT gamma, T mean, T rstd, T mean_g, T mean_gx, bool accumulate,
                  T* HWY_RESTRICT dx) {
  const T keep = accumulate ? T{1} : T{0};
  if (!accumulate) std::fill(dx, dx + columns, T{0});
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    const T xhat = (x[c] - mean) * rstd;
    dx[c] = keep * dx[c] + rstd * (dy[c] * gamma[c] - mean_g - xhat * mean_gx);
  }
}

template <typename T>
void column_gradients(std::int64_t columns, const T* HWY_RESTRICT x, const T* HWY_RESTRICT dy, T mean, T rstd,
                      T* HWY_RESTRICT dgamma, T* HWY_RESTRICT dbeta) {
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    dgamma[c] += dy[c] * ((x[c] - mean) * rstd);
    dbeta[c] += dy[c];
  }
}

void moments_f32(std::int64_t c, const float* x, float* s) {
  moments(c, x, s);
}
void moments_f64(std::int64_t c, const double* x, double* s) {
  moments(c, x, s);
}
void apply_f32(std::int64_t c, const float* x, float m, float r, const float* g, const float* b, float* y) {
  apply(c, x, m, r, g, b, y);
}
void apply_f64(std::int64_t c, const double* x, double m, double r, const double* g, const double* b,
               double* y) {
  apply(c, x, m, r, g, b, y);
}
void row_moments_f32(std::int64_t c, const float* x, const float* dy, const float* g, float m, float r,
                     float* s) {
  row_gradient_moments(c, x, dy, g, m, r, s);
}
void row_moments_f64(std::int64_t c, const double* x, const double* dy, const double* g, double m, double r,
                     double* s) {
  row_gradient_moments(c, x, dy, g, m, r, s);
}
void row_gradient_f32(std::int64_t c, const float* x, const float* dy, const float* g, float m, float r,
                      float a, float b, bool accumulate, float* dx) {
  row_gradient(c, x, dy, g, m, r, a, b, accumulate, dx);
}
void row_gradient_f64(std::int64_t c, const double* x, const double* dy, const double* g, double m, double r,
                      double a, double b, bool accumulate, double* dx) {
  row_gradient(c, x, dy, g, m, r, a, b, accumulate, dx);
}
void column_gradients_f32(std::int64_t c, const float* x, const float* dy, float m, float r, float* dg,
                          float* db) {
  column_gradients(c, x, dy, m, r, dg, db);
}
void column_gradients_f64(std::int64_t c, const double* x, const double* dy, double m, double r, double* dg,
                          double* db) {
  column_gradients(c, x, dy, m, r, dg, db);
}

}  // namespace thinwire::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::nn {
HWY_EXPORT(moments_f32);
HWY_EXPORT(moments_f64);
HWY_EXPORT(apply_f32);
HWY_EXPORT(apply_f64);
HWY_EXPORT(row_moments_f32);
HWY_EXPORT(row_moments_f64);
HWY_EXPORT(row_gradient_f32);
HWY_EXPORT(row_gradient_f64);
HWY_EXPORT(column_gradients_f32);
HWY_EXPORT(column_gradients_f64);

namespace {
/// Runs body(row) for all rows on the threads that pay.
template <typename Body>
void for_rows(std::int64_t rows, std::int64_t columns, const Body& body) {
  parallel_ranges(rows, std::max<std::int64_t>(1, default_grain / std::max<std::int64_t>(1, columns)), 1,
                  [&](std::int64_t begin, std::int64_t end, int) {
                    for (std::int64_t r = begin; r < end; ++r) body(r);
                  });
}
template <typename T>
void moments_of_row(std::int64_t columns, const T* x, T* sums) {
  if constexpr (sizeof(T) == 4)
    HWY_DYNAMIC_DISPATCH(moments_f32)(columns, x, sums);
  else
    HWY_DYNAMIC_DISPATCH(moments_f64)(columns, x, sums);
}

template <typename T>
void gradient_moments_of_row(std::int64_t columns, const T* x, const T* dy, const T* gamma, T mean, T rstd, T* sums) {
  if constexpr (sizeof(T) == 4)
    HWY_DYNAMIC_DISPATCH(row_moments_f32)(columns, x, dy, gamma, mean, rstd, sums);
  else
    HWY_DYNAMIC_DISPATCH(row_moments_f64)(columns, x, dy, gamma, mean, rstd, sums);
}
}  // namespace

template <typename T>
void row_moments(std::int64_t rows, std::int64_t columns, const T* x, T* sums) {
  if (device::on_device()) return device::queue<T>(device::entries().row_moments, device_f32, rows, columns, x, sums);
  for_rows(rows, columns, [&](std::int64_t r) { moments_of_row(columns, x + r * columns, sums + 2 * r); });
}

template <typename T>
void normalise(std::int64_t rows, std::int64_t columns, std::int64_t hidden, const T* x, const T* sums,
               const T* gamma, const T* beta, T* y, T* mean, T* rstd, double epsilon) {
  if (device::on_device()) {
    if (epsilon != layernorm_epsilon) throw UsageError("On a device layernorms add 1e-5 to the variance and nothing else; use the host (--device host)");
    return device::queue<T>(device::entries().normalise, device_f32, rows, columns, hidden, x, sums, gamma, beta, y, mean, rstd);
  }
  for_rows(rows, columns, [&](std::int64_t r) {
    const T* row = x + r * columns;
    T own[2];
    if (sums == nullptr) moments_of_row(columns, row, own);
    const T* s = sums == nullptr ? own : sums + 2 * r;
    mean[r] = s[0] / static_cast<T>(hidden);
    const T variance = std::max(T{0}, s[1] / static_cast<T>(hidden) - mean[r] * mean[r]);
    rstd[r] = T{1} / std::sqrt(variance + static_cast<T>(epsilon));
    if constexpr (sizeof(T) == 4)
      HWY_DYNAMIC_DISPATCH(apply_f32)(columns, row, mean[r], rstd[r], gamma, beta, y + r * columns);
    else
      HWY_DYNAMIC_DISPATCH(apply_f64)(columns, row, mean[r], rstd[r], gamma, beta, y + r * columns);
  });
}

template <typename T>
void gradient_moments(std::int64_t rows, std::int64_t columns, const T* x, const T* dy, const T* gamma,
                      const T* mean, const T* rstd, T* sums) {
  if (device::on_device())
    return device::queue<T>(device::entries().gradient_moments, device_f32, rows, columns, x, dy, gamma, mean, rstd, sums);
  for_rows(rows, columns, [&](std::int64_t r) {
    gradient_moments_of_row(columns, x + r * columns, dy + r * columns, gamma, mean[r], rstd[r], sums + 2 * r);
  });
}

template <typename T>
void normalise_backward(std::int64_t rows, std::int64_t columns, std::int64_t hidden, const T* x, const T* dy,
                        const T* gamma, const T* mean, const T* rstd, const T* sums, bool accumulate, T* dx,
                        T* dgamma, T* dbeta) {
  if (device::on_device())
    return device::queue<T>(device::entries().normalise_backward, device_f32, rows, columns, hidden, x, dy, gamma, mean, rstd, sums, accumulate ? 1 : 0, dx,
                            dgamma, dbeta, device::workspace(column_sums_workspace_bytes(rows, columns, 2)));
  for_rows(rows, columns, [&](std::int64_t r) {
    const T *xr = x + r * columns, *dyr = dy + r * columns;
    T own[2];
    if (sums == nullptr) gradient_moments_of_row(columns, xr, dyr, gamma, mean[r], rstd[r], own);
    const T* s = sums == nullptr ? own : sums + 2 * r;
    const T mean_g = s[0] / static_cast<T>(hidden), mean_gx = s[1] / static_cast<T>(hidden);
    if constexpr (sizeof(T) == 4)
      HWY_DYNAMIC_DISPATCH(row_gradient_f32)
      (columns, xr, dyr, gamma, mean[r], rstd[r], mean_g, mean_gx, accumulate, dx + r * columns);
    else
      HWY_DYNAMIC_DISPATCH(row_gradient_f64)
      (columns, xr, dyr, gamma, mean[r], rstd[r], mean_g, mean_gx, accumulate, dx + r * columns);
  });
  // Threads split the columns, so the order of every sum is the same for any number of threads.
  const std::int64_t grain = std::max<std::int64_t>(64, default_grain / std::max<std::int64_t>(1, rows));
  parallel_for(columns, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T *xr = x + r * columns + begin, *dyr = dy + r * columns + begin;
      if constexpr (sizeof(T) == 4)
        HWY_DYNAMIC_DISPATCH(column_gradients_f32)
        (end - begin, xr, dyr, mean[r], rstd[r], dgamma + begin, dbeta + begin);
      else
        HWY_DYNAMIC_DISPATCH(column_gradients_f64)
        (end - begin, xr, dyr, mean[r], rstd[r], dgamma + begin, dbeta + begin);
    }
  });
}

#define TW_INSTANTIATE(T)                                                                               \
  template void row_moments<T>(std::int64_t, std::int64_t, const T*, T*);                               \
  template void normalise<T>(std::int64_t, std::int64_t, std::int64_t, const T*, const T*, const T*,    \
                             const T*, T*, T*, T*, double);                                             \
  template void gradient_moments<T>(std::int64_t, std::int64_t, const T*, const T*, const T*, const T*, \
                                    const T*, T*);                                                      \
  template void normalise_backward<T>(std::int64_t, std::int64_t, std::int64_t, const T*, const T*,     \
                                      const T*, const T*, const T*, const T*, bool, T*, T*, T*)
TW_INSTANTIATE(float);
TW_INSTANTIATE(double);
#undef TW_INSTANTIATE

}  // namespace thinwire::nn
#endif
