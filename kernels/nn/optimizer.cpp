#include "kernels/nn/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/error.h"
#include "core/simd_targets.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/optimizer.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "kernels/nn/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::nn::HWY_NAMESPACE {

/// One vector of weights; every argument is read once and written once.
template <class D, class V, typename T = hn::TFromD<D>>
void update_vector(D d, const detail::AdamWFactors<T>& f, V g, V& w, V& m, V& v) {
  g = hn::Mul(g, hn::Set(d, f.gradient_scale));
  m = hn::MulAdd(hn::Set(d, f.beta1), m, hn::Mul(hn::Set(d, T{1} - f.beta1), g));
  v = hn::MulAdd(hn::Set(d, f.beta2), v, hn::Mul(hn::Set(d, T{1} - f.beta2), hn::Mul(g, g)));
  const V root = hn::Add(hn::Sqrt(hn::Mul(v, hn::Set(d, f.v_correction))), hn::Set(d, f.epsilon));
  const V direction = hn::Div(hn::Mul(m, hn::Set(d, f.m_correction)), root);
  w = hn::NegMulAdd(hn::Set(d, f.learning_rate), direction, hn::Mul(hn::Set(d, f.keep), w));
}

template <typename T>
void update(const detail::AdamWFactors<T>& f, std::int64_t count, const T* g, T* w, T* m, T* v) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto wv = hn::LoadU(d, w + i), mv = hn::LoadU(d, m + i), vv = hn::LoadU(d, v + i);
    update_vector(d, f, hn::LoadU(d, g + i), wv, mv, vv);
    hn::StoreU(wv, d, w + i);
    hn::StoreU(mv, d, m + i);
    hn::StoreU(vv, d, v + i);
  }
  if (const std::int64_t n = count - i; n > 0) {
    auto wv = load_partial(d, w + i, n, T{0}), mv = load_partial(d, m + i, n, T{0}),
         vv = load_partial(d, v + i, n, T{0});
    update_vector(d, f, load_partial(d, g + i, n, T{0}), wv, mv, vv);
    store_partial(d, wv, w + i, n);
    store_partial(d, mv, m + i, n);
    store_partial(d, vv, v + i, n);
  }
}

template <typename T>
double block_sum_of_squares(std::int64_t count, const T* x) {
  double total = 0;  // lanes over at most 1024 elements, then f64
  for (std::int64_t i = 0; i < count; i += 1024)
    total += static_cast<double>(sum_of(std::min<std::int64_t>(1024, count - i), x + i, x + i,
                                        [](auto, auto value, auto) { return hn::Mul(value, value); }));
  return total;
}

void update_f32(const detail::AdamWFactors<float>& f, std::int64_t n, const float* g, float* w, float* m,
                float* v) {
  update(f, n, g, w, m, v);
}
void update_f64(const detail::AdamWFactors<double>& f, std::int64_t n, const double* g, double* w, double* m,
                double* v) {
  update(f, n, g, w, m, v);
}
double squares_f32(std::int64_t n, const float* x) {
  return block_sum_of_squares(n, x);
}
double squares_f64(std::int64_t n, const double* x) {
  return block_sum_of_squares(n, x);
}

}  // namespace thinwire::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::nn {
HWY_EXPORT(update_f32);
HWY_EXPORT(update_f64);
HWY_EXPORT(squares_f32);
HWY_EXPORT(squares_f64);

namespace {
template <typename T>
detail::AdamWFactors<T> factors_of(const AdamW& options, double decay, double learning_rate, std::int64_t step, double gradient_scale) {
  const auto t = static_cast<double>(step);
  return {static_cast<T>(options.beta1),
          static_cast<T>(options.beta2),
          static_cast<T>(1.0 / (1.0 - std::pow(options.beta1, t))),
          static_cast<T>(1.0 / (1.0 - std::pow(options.beta2, t))),
          static_cast<T>(options.epsilon),
          static_cast<T>(learning_rate),
          static_cast<T>(1.0 - learning_rate * decay),
          static_cast<T>(gradient_scale)};
}

/// On the placement's device; `squares` null: no clipping.
template <typename T>
void queue_adamw(const detail::AdamWFactors<T>& f, double max_norm, const double* squares, std::int64_t count, const T* gradient, T* weight, T* m, T* v) {
  const thinwire_cuda_adamw_factors factors{static_cast<float>(f.beta1),         static_cast<float>(f.beta2),   static_cast<float>(f.m_correction),
                                            static_cast<float>(f.v_correction),  static_cast<float>(f.epsilon), static_cast<float>(f.learning_rate),
                                            static_cast<float>(f.keep),          static_cast<float>(f.gradient_scale),
                                            static_cast<float>(max_norm)};
  device::queue<T>(device::entries().adamw_step, &factors, count, gradient, weight, m, v, nullptr, squares);
}
}  // namespace

template <typename T>
void adamw_step(const AdamW& options, double decay, double learning_rate, std::int64_t step,
                double gradient_scale, std::int64_t count, const T* gradient, T* weight, T* m, T* v) {
  const auto f = factors_of<T>(options, decay, learning_rate, step, gradient_scale);
  if (device::on_device()) return queue_adamw<T>(f, 0, nullptr, count, gradient, weight, m, v);
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t n = end - begin;
    if constexpr (sizeof(T) == 4)
      HWY_DYNAMIC_DISPATCH(update_f32)(f, n, gradient + begin, weight + begin, m + begin, v + begin);
    else
      HWY_DYNAMIC_DISPATCH(update_f64)(f, n, gradient + begin, weight + begin, m + begin, v + begin);
  });
}

template <typename T>
void clipped_adamw_step(const AdamW& options, double decay, double learning_rate, std::int64_t step, double max_norm,
                        const double* squares, std::int64_t count, const T* gradient, T* weight, T* m, T* v) {
  if (device::on_device())
    return queue_adamw<T>(factors_of<T>(options, decay, learning_rate, step, 1), max_norm, squares, count, gradient, weight, m, v);
  adamw_step<T>(options, decay, learning_rate, step, clip_factor(std::sqrt(*squares), max_norm), count, gradient, weight, m, v);
}
template void clipped_adamw_step<float>(const AdamW&, double, double, std::int64_t, double, const double*, std::int64_t,
                                        const float*, float*, float*, float*);
template void clipped_adamw_step<double>(const AdamW&, double, double, std::int64_t, double, const double*, std::int64_t,
                                         const double*, double*, double*, double*);
template void adamw_step<float>(const AdamW&, double, double, std::int64_t, double, std::int64_t,
                                const float*, float*, float*, float*);
template void adamw_step<double>(const AdamW&, double, double, std::int64_t, double, std::int64_t,
                                 const double*, double*, double*, double*);

template <typename T>
void momentum_step(double beta1, double gradient_scale, std::int64_t count, const T* gradient, T* m) {
  TW_ASSERT(!device::on_device(), "momentum without a variance exists on the host");
  const T keep = static_cast<T>(beta1), take = (T{1} - keep) * static_cast<T>(gradient_scale);
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) m[i] = keep * m[i] + take * gradient[i];
  });
}
template void momentum_step<float>(double, double, std::int64_t, const float*, float*);
template void momentum_step<double>(double, double, std::int64_t, const double*, double*);

template <typename T>
void apply_moments(const AdamW& options, double decay, double learning_rate, std::int64_t step, std::int64_t v_step, std::int64_t count, const T* m, const T* v, T* w) {
  TW_ASSERT(!device::on_device(), "a step with a frozen variance exists on the host");
  const auto f = factors_of<T>(options, decay, learning_rate, step, 1);
  const T v_correction = factors_of<T>(options, decay, learning_rate, v_step, 1).v_correction;
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) w[i] = f.keep * w[i] - f.learning_rate * (m[i] * f.m_correction / (std::sqrt(v[i] * v_correction) + f.epsilon));
  });
}
template void apply_moments<float>(const AdamW&, double, double, std::int64_t, std::int64_t, std::int64_t, const float*, const float*, float*);
template void apply_moments<double>(const AdamW&, double, double, std::int64_t, std::int64_t, std::int64_t, const double*, const double*, double*);

template <typename T>
double sum_of_squares(std::int64_t count, const T* x) {
  if (device::on_device()) {
    double total = 0;
    std::byte* space = device::workspace(sizeof total + sum_of_squares_workspace_bytes(count));
    auto* sum = reinterpret_cast<double*>(space);
    device::queue<T>(device::entries().sum_of_squares, count, x, sum, 0, space + sizeof total);
    copy_and_wait(&total, sum, sizeof total);
    return total;
  }
  constexpr std::int64_t block = 16 * 1024;
  std::vector<double> partial(static_cast<std::size_t>((count + block - 1) / block));
  parallel_ranges(
      static_cast<std::int64_t>(partial.size()), 4, 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t n = std::min(block, count - b * block);
          if constexpr (sizeof(T) == 4)
            partial[static_cast<std::size_t>(b)] = HWY_DYNAMIC_DISPATCH(squares_f32)(n, x + b * block);
          else
            partial[static_cast<std::size_t>(b)] = HWY_DYNAMIC_DISPATCH(squares_f64)(n, x + b * block);
        }
      });
  double total = 0;
  for (double p : partial) total += p;
  return total;
}
template double sum_of_squares<float>(std::int64_t, const float*);
template double sum_of_squares<double>(std::int64_t, const double*);

template <typename T>
void add_sum_of_squares(std::int64_t count, const T* x, double* sum) {
  if (device::on_device())
    return device::queue<T>(device::entries().sum_of_squares, count, x, sum, 1, device::workspace(sum_of_squares_workspace_bytes(count)));
  *sum += sum_of_squares<T>(count, x);
}
template void add_sum_of_squares<float>(std::int64_t, const float*, double*);
template void add_sum_of_squares<double>(std::int64_t, const double*, double*);

double clip_factor(double norm, double max_norm) {
  return norm > max_norm ? max_norm / norm : 1.0;
}

double CosineSchedule::at(std::int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (step >= total) return min_lr;
  const double progress =
      static_cast<double>(step - warmup) / static_cast<double>(std::max<std::int64_t>(1, total - warmup));
  return min_lr + 0.5 * (peak - min_lr) * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace thinwire::nn
#endif
