// What the SIMD kernels of nn share. Included once per Highway target, so no ordinary include guard. Kernels
// are compiled for a baseline, AVX2 and AVX-512 and dispatched at run time; fewer targets keep the build
// short.
#if defined(THINWIRE_NN_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_NN_SIMD_INL_H
#undef THINWIRE_NN_SIMD_INL_H
#else
#define THINWIRE_NN_SIMD_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::nn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Loads n < Lanes elements; the lanes behind hold `fill`.
template <class D, typename T = hn::TFromD<D>>
hn::Vec<D> load_partial(D d, const T* p, std::int64_t n, T fill) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(hn::Set(d, fill), d, lanes);
  std::memcpy(lanes, p, static_cast<std::size_t>(n) * sizeof(T));
  return hn::Load(d, lanes);
}
template <class D, typename T = hn::TFromD<D>>
void store_partial(D d, hn::Vec<D> v, T* p, std::int64_t n) {
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, static_cast<std::size_t>(n) * sizeof(T));
}

/// to[i] = f(x[i]) for i in [0, count), vector by vector.
template <typename T, class F>
void transform(std::int64_t count, const T* x, T* to, const F& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, to + i);
  if (i < count) store_partial(d, f(d, load_partial(d, x + i, count - i, T{0})), to + i, count - i);
}
/// to[i] = f(x[i], y[i]).
template <typename T, class F>
void transform(std::int64_t count, const T* x, const T* y, T* to, const F& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(f(d, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, to + i);
  if (i < count) {
    const std::int64_t n = count - i;
    store_partial(d, f(d, load_partial(d, x + i, n, T{0}), load_partial(d, y + i, n, T{0})), to + i, n);
  }
}
/// Sum over i of f(x[i], y[i]); f must give 0 for zeros.
template <typename T, class F>
T sum_of(std::int64_t count, const T* x, const T* y, const F& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto total = hn::Zero(d), second = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    total = hn::Add(total, f(d, hn::LoadU(d, x + i), hn::LoadU(d, y + i)));
    second = hn::Add(second, f(d, hn::LoadU(d, x + i + lanes), hn::LoadU(d, y + i + lanes)));
  }
  for (; i < count; i += lanes) {
    const std::int64_t n = std::min(lanes, count - i);
    total = hn::Add(total, f(d, load_partial(d, x + i, n, T{0}), load_partial(d, y + i, n, T{0})));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(total, second)));
}
/// Largest of x[0..count), count >= 1.
template <typename T>
T max_of(std::int64_t count, const T* x) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto largest = hn::Set(d, x[0]);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, hn::LoadU(d, x + i));
  if (i < count) largest = hn::Max(largest, load_partial(d, x + i, count - i, x[0]));
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

}  // namespace thinwire::nn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
