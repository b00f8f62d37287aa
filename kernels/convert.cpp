#include "kernels/convert.h"

#include "core/error.h"
#include "core/half.h"
#include "core/simd_targets.h"
#include "kernels/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;
using F16 = hn::Rebind<hwy::float16_t, F32>;

// Highway's fallback for processors without F16C is not exact for subnormals and ties, so those use core/half.h.
#undef THINWIRE_EXACT_F16
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
#define THINWIRE_EXACT_F16 1
#else
#define THINWIRE_EXACT_F16 0
#endif

#if THINWIRE_EXACT_F16
HWY_INLINE hn::Vec<F32> LoadHalf(const Half* p) {
  const F16 d16;
  return hn::PromoteTo(F32(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE void StoreHalf(hn::Vec<F32> v, Half* p) {
  const F16 d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
}
#endif

HWY_INLINE hn::Vec<F32> LoadBFloat16(const BFloat16* p) {
  const U32 du;
  const auto bits = hn::PromoteTo(du, hn::LoadU(U16(), reinterpret_cast<const std::uint16_t*>(p)));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(bits));
}
// Highway truncates to bfloat16; this rounds to nearest even as core/half.h does.
HWY_INLINE void StoreBFloat16(hn::Vec<F32> v, BFloat16* p) {
  const U32 du;
  const auto bits = hn::BitCast(du, v);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))));
  const auto quiet_nan = hn::Or(upper, hn::Set(du, 0x40u));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  hn::StoreU(hn::TruncateTo(U16(), hn::IfThenElse(is_nan, quiet_nan, rounded)), U16(), reinterpret_cast<std::uint16_t*>(p));
}

void FloatToHalf(const float* from, Half* to, std::size_t n) {
  std::size_t i = 0;
#if THINWIRE_EXACT_F16
  const F32 d;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes) StoreHalf(hn::LoadU(d, from + i), to + i);
#endif
  for (; i < n; ++i) to[i] = to_half(from[i]);
}

void HalfToFloat(const Half* from, float* to, std::size_t n) {
  std::size_t i = 0;
#if THINWIRE_EXACT_F16
  const F32 d;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes) hn::StoreU(LoadHalf(from + i), d, to + i);
#endif
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

void FloatToBFloat16(const float* from, BFloat16* to, std::size_t n) {
  const F32 d;
  std::size_t i = 0;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes) StoreBFloat16(hn::LoadU(d, from + i), to + i);
  for (; i < n; ++i) to[i] = to_bfloat16(from[i]);
}

void BFloat16ToFloat(const BFloat16* from, float* to, std::size_t n) {
  const F32 d;
  std::size_t i = 0;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes) hn::StoreU(LoadBFloat16(from + i), d, to + i);
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

void AccumulateHalf(Half* sum, const Half* x, std::size_t n) {
  std::size_t i = 0;
#if THINWIRE_EXACT_F16
  const F32 d;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes)
    StoreHalf(hn::Add(LoadHalf(sum + i), LoadHalf(x + i)), sum + i);
#endif
  for (; i < n; ++i) sum[i] = to_half(to_float(sum[i]) + to_float(x[i]));
}

void AccumulateBFloat16(BFloat16* sum, const BFloat16* x, std::size_t n) {
  const F32 d;
  std::size_t i = 0;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes)
    StoreBFloat16(hn::Add(LoadBFloat16(sum + i), LoadBFloat16(x + i)), sum + i);
  for (; i < n; ++i) sum[i] = to_bfloat16(to_float(sum[i]) + to_float(x[i]));
}

void AccumulateFloat(float* sum, const float* x, std::size_t n) {
  const F32 d;
  std::size_t i = 0;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::LoadU(d, x + i)), d, sum + i);
  for (; i < n; ++i) sum[i] += x[i];
}

void MaximumBytes(std::uint8_t* to, const std::uint8_t* x, std::size_t n) {
  const hn::ScalableTag<std::uint8_t> d;
  std::size_t i = 0;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes)
    hn::StoreU(hn::Max(hn::LoadU(d, to + i), hn::LoadU(d, x + i)), d, to + i);
  for (; i < n; ++i) to[i] = to[i] > x[i] ? to[i] : x[i];
}

void OrBytes(std::uint8_t* to, const std::uint8_t* x, std::size_t n) {
  const hn::ScalableTag<std::uint8_t> d;
  std::size_t i = 0;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes)
    hn::StoreU(hn::Or(hn::LoadU(d, to + i), hn::LoadU(d, x + i)), d, to + i);
  for (; i < n; ++i) to[i] = static_cast<std::uint8_t>(to[i] | x[i]);
}

void ScaleFloat(float* to, const float* x, std::size_t n, float factor) {
  const F32 d;
  const auto f = hn::Set(d, factor);
  std::size_t i = 0;
  for (const std::size_t lanes = hn::Lanes(d); i + lanes <= n; i += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), f), d, to + i);
  for (; i < n; ++i) to[i] = x[i] * factor;
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace thinwire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire {

HWY_EXPORT(FloatToHalf);
HWY_EXPORT(HalfToFloat);
HWY_EXPORT(FloatToBFloat16);
HWY_EXPORT(BFloat16ToFloat);
HWY_EXPORT(AccumulateHalf);
HWY_EXPORT(AccumulateBFloat16);
HWY_EXPORT(AccumulateFloat);
HWY_EXPORT(MaximumBytes);
HWY_EXPORT(OrBytes);
HWY_EXPORT(ScaleFloat);
HWY_EXPORT(TargetName);

namespace {
// Calls kernel(to, from, n) on the ranges of the threads; grain in bytes of the wider side.
template <typename To, typename From, typename Kernel>
void over_threads(std::span<To> to, std::span<const From> from, Kernel kernel) {
  TW_ASSERT(to.size() == from.size());
  constexpr std::int64_t grain = 128 * 1024 / static_cast<std::int64_t>(std::max(sizeof(To), sizeof(From)));
  parallel_for(static_cast<std::int64_t>(to.size()), grain, [&](std::int64_t begin, std::int64_t end) {
    kernel(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
  });
}
}  // namespace

void convert(std::span<const float> from, std::span<Half> to) {
  over_threads(to, from, [](Half* t, const float* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(FloatToHalf)(f, t, n); });
}
void convert(std::span<const Half> from, std::span<float> to) {
  over_threads(to, from, [](float* t, const Half* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(HalfToFloat)(f, t, n); });
}
void convert(std::span<const float> from, std::span<BFloat16> to) {
  over_threads(to, from, [](BFloat16* t, const float* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(FloatToBFloat16)(f, t, n); });
}
void convert(std::span<const BFloat16> from, std::span<float> to) {
  over_threads(to, from, [](float* t, const BFloat16* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(BFloat16ToFloat)(f, t, n); });
}
void accumulate(std::span<Half> accumulator, std::span<const Half> x) {
  over_threads(accumulator, x, [](Half* t, const Half* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(AccumulateHalf)(t, f, n); });
}
void accumulate(std::span<BFloat16> accumulator, std::span<const BFloat16> x) {
  over_threads(accumulator, x,
               [](BFloat16* t, const BFloat16* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(AccumulateBFloat16)(t, f, n); });
}
void accumulate(std::span<float> accumulator, std::span<const float> x) {
  over_threads(accumulator, x, [](float* t, const float* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(AccumulateFloat)(t, f, n); });
}
void maximum_into(std::span<std::uint8_t> accumulator, std::span<const std::uint8_t> x) {
  over_threads(accumulator, x,
               [](std::uint8_t* t, const std::uint8_t* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(MaximumBytes)(t, f, n); });
}
void bit_or_into(std::span<std::uint8_t> accumulator, std::span<const std::uint8_t> x) {
  over_threads(accumulator, x,
               [](std::uint8_t* t, const std::uint8_t* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(OrBytes)(t, f, n); });
}
void scale(std::span<float> to, std::span<const float> x, float factor) {
  over_threads(to, x,
               [factor](float* t, const float* f, std::size_t n) { HWY_DYNAMIC_DISPATCH(ScaleFloat)(t, f, n, factor); });
}

const char* simd_target() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace thinwire
#endif  // HWY_ONCE
