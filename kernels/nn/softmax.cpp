#include "kernels/nn/softmax.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/simd_targets.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nn/softmax.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "kernels/nn/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::nn::HWY_NAMESPACE {

/// x[i] = exp(scale * x[i] - shift), returns the sum.
template <typename T>
T exponentials(std::int64_t count, T scale, T shift, T* x) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, scale), offset = hn::Set(d, shift);
  auto total = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto e = hn::Exp(d, hn::MulSub(hn::LoadU(d, x + i), factor, offset));
    hn::StoreU(e, d, x + i);
    total = hn::Add(total, e);
  }
  T sum = hn::GetLane(hn::SumOfLanes(d, total));
  if (i < count) {
    store_partial(d, hn::Exp(d, hn::MulSub(load_partial(d, x + i, count - i, x[i]), factor, offset)), x + i,
                  count - i);
    for (; i < count; ++i) sum += x[i];
  }
  return sum;
}

template <typename T>
void scale_row(std::int64_t count, T factor, T* x) {
  transform(count, x, x, [factor](auto d, auto v) { return hn::Mul(v, hn::Set(d, factor)); });
}

template <typename T>
void causal_softmax_rows(std::int64_t rows, std::int64_t columns, std::int64_t first_query, T scale,
                         T* scores, T* lse) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = scores + r * columns;
    const std::int64_t visible = std::min(columns, first_query + r + 1);
    const T shift = scale * max_of(visible, row);
    const T sum = exponentials(visible, scale, shift, row);
    scale_row(visible, T{1} / sum, row);
    std::fill(row + visible, row + columns, T{0});
    lse[r] = shift + std::log(sum);
  }
}

template <typename T>
void causal_probability_rows(std::int64_t rows, std::int64_t columns, std::int64_t first_query, T scale,
                             T* scores, const T* lse) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T* row = scores + r * columns;
    const std::int64_t visible = std::min(columns, first_query + r + 1);
    exponentials(visible, scale, lse[r], row);
    std::fill(row + visible, row + columns, T{0});
  }
}

template <typename T>
void softmax_gradient_rows(std::int64_t rows, std::int64_t columns, T scale, const T* p, const T* delta,
                           T* g) {
  for (std::int64_t r = 0; r < rows; ++r)
    transform(columns, p + r * columns, g + r * columns, g + r * columns,
              [&](auto d, auto probability, auto dp) {
                return hn::Mul(hn::Mul(hn::Set(d, scale), probability), hn::Sub(dp, hn::Set(d, delta[r])));
              });
}

template <typename T>
T cross_entropy_row(std::int64_t vocab, T* row, std::int32_t target, T gradient_scale) {
  const T largest = max_of(vocab, row);
  const T at_target = row[target];
  const T sum = exponentials(vocab, T{1}, largest, row);
  scale_row(vocab, gradient_scale / sum, row);
  row[target] -= gradient_scale;
  return largest + std::log(sum) - at_target;
}

void softmax_f32(std::int64_t r, std::int64_t c, std::int64_t q, float s, float* x, float* l) {
  causal_softmax_rows(r, c, q, s, x, l);
}
void softmax_f64(std::int64_t r, std::int64_t c, std::int64_t q, double s, double* x, double* l) {
  causal_softmax_rows(r, c, q, s, x, l);
}
void probabilities_f32(std::int64_t r, std::int64_t c, std::int64_t q, float s, float* x, const float* l) {
  causal_probability_rows(r, c, q, s, x, l);
}
void probabilities_f64(std::int64_t r, std::int64_t c, std::int64_t q, double s, double* x, const double* l) {
  causal_probability_rows(r, c, q, s, x, l);
}
void gradient_f32(std::int64_t r, std::int64_t c, float s, const float* p, const float* d, float* g) {
  softmax_gradient_rows(r, c, s, p, d, g);
}
void gradient_f64(std::int64_t r, std::int64_t c, double s, const double* p, const double* d, double* g) {
  softmax_gradient_rows(r, c, s, p, d, g);
}
float cross_entropy_f32(std::int64_t v, float* x, std::int32_t t, float s) {
  return cross_entropy_row(v, x, t, s);
}
double cross_entropy_f64(std::int64_t v, double* x, std::int32_t t, double s) {
  return cross_entropy_row(v, x, t, s);
}

}  // namespace thinwire::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::nn {
HWY_EXPORT(softmax_f32);
HWY_EXPORT(softmax_f64);
HWY_EXPORT(probabilities_f32);
HWY_EXPORT(probabilities_f64);
HWY_EXPORT(gradient_f32);
HWY_EXPORT(gradient_f64);
HWY_EXPORT(cross_entropy_f32);
HWY_EXPORT(cross_entropy_f64);

template <>
void causal_softmax(std::int64_t rows, std::int64_t columns, std::int64_t first, float scale, float* x,
                    float* lse) {
  HWY_DYNAMIC_DISPATCH(softmax_f32)(rows, columns, first, scale, x, lse);
}
template <>
void causal_softmax(std::int64_t rows, std::int64_t columns, std::int64_t first, double scale, double* x,
                    double* lse) {
  HWY_DYNAMIC_DISPATCH(softmax_f64)(rows, columns, first, scale, x, lse);
}
template <>
void causal_probabilities(std::int64_t rows, std::int64_t columns, std::int64_t first, float scale, float* x,
                          const float* lse) {
  HWY_DYNAMIC_DISPATCH(probabilities_f32)(rows, columns, first, scale, x, lse);
}
template <>
void causal_probabilities(std::int64_t rows, std::int64_t columns, std::int64_t first, double scale,
                          double* x, const double* lse) {
  HWY_DYNAMIC_DISPATCH(probabilities_f64)(rows, columns, first, scale, x, lse);
}
template <>
void softmax_gradient(std::int64_t rows, std::int64_t columns, float scale, const float* p,
                      const float* delta, float* g) {
  HWY_DYNAMIC_DISPATCH(gradient_f32)(rows, columns, scale, p, delta, g);
}
template <>
void softmax_gradient(std::int64_t rows, std::int64_t columns, double scale, const double* p,
                      const double* delta, double* g) {
  HWY_DYNAMIC_DISPATCH(gradient_f64)(rows, columns, scale, p, delta, g);
}

template <typename T>
void cross_entropy(std::int64_t rows, std::int64_t vocab, T* logits, const std::int32_t* targets,
                   T gradient_scale, T* losses) {
  if (device::on_device())
    return device::queue<T>(device::entries().cross_entropy, device_f32, rows, vocab, logits, targets, gradient_scale, losses,
                            device::status_word(device::StatusWord::targets));
  parallel_ranges(rows, std::max<std::int64_t>(1, default_grain / (4 * vocab)), 1,
                  [&](std::int64_t begin, std::int64_t end, int) {
                    for (std::int64_t r = begin; r < end; ++r) {
                      if (targets[r] < 0 || targets[r] >= vocab)
                        throw CorruptData("Target " + std::to_string(targets[r]) + " of row " +
                                          std::to_string(r) + " is outside the vocabulary of " +
                                          std::to_string(vocab) + ". Check the tokens handed to the model.");
                      if constexpr (sizeof(T) == 4)
                        losses[r] = HWY_DYNAMIC_DISPATCH(cross_entropy_f32)(vocab, logits + r * vocab,
                                                                            targets[r], gradient_scale);
                      else
                        losses[r] = HWY_DYNAMIC_DISPATCH(cross_entropy_f64)(vocab, logits + r * vocab,
                                                                            targets[r], gradient_scale);
                    }
                  });
}
template void cross_entropy<float>(std::int64_t, std::int64_t, float*, const std::int32_t*, float, float*);
template void cross_entropy<double>(std::int64_t, std::int64_t, double*, const std::int32_t*, double,
                                    double*);

}  // namespace thinwire::nn
#endif
