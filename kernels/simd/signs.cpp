#include "kernels/simd/signs.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/signs.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using U32 = hn::RebindToUnsigned<F32>;
constexpr std::size_t group = 16;  ///< values worked on together: two bytes of signs

HWY_INLINE std::uint16_t SignsOf(const float* HWY_RESTRICT x) {
  const F32 d;
  std::uint32_t word = 0;
  for (std::size_t k = 0; k < group; k += hn::Lanes(d)) {
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, hn::Lt(hn::LoadU(d, x + k), hn::Zero(d)), bytes);
    word |= static_cast<std::uint32_t>(bytes[0] | bytes[1] << 8) << k;
  }
  return static_cast<std::uint16_t>(word);
}

void PackSigns(const float* HWY_RESTRICT x, std::size_t n, std::uint8_t* HWY_RESTRICT bits) {
  std::size_t i = 0;
  for (; i + group <= n; i += group) {
    hwy::Prefetch(x + n + i);
    const std::uint16_t word = SignsOf(x + i);
    std::memcpy(bits + i / 8, &word, sizeof word);  // little-endian, as payloads are
  }
  if (i == n) return;
  float rest[group] = {};
  std::memcpy(rest, x + i, (n - i) * sizeof(float));
  const std::uint16_t word = SignsOf(rest);
  std::memcpy(bits + i / 8, &word, (n - i + 7) / 8);
}

template <bool kAdd, bool kStream>
void Unpack(const std::uint8_t* HWY_RESTRICT bits, std::size_t n, float scale, float* HWY_RESTRICT out) {
  const F32 d;
  const U32 du;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::BitCast(du, hn::Set(d, scale)), sign = hn::Set(du, 0x80000000u);
  float rest[group];
  for (std::size_t i = 0; i < n; i += group) {
    const std::size_t count = n - i < group ? n - i : group;
    std::uint16_t word = 0;
    std::memcpy(&word, bits + i / 8, (count + 7) / 8);
    float* const to = count == group ? out + i : rest;
    for (std::size_t k = 0; k < group; k += lanes) {
      const auto moved = hn::Shl(hn::Set(du, word), hn::Sub(hn::Set(du, static_cast<std::uint32_t>(31 - k)), hn::Iota(du, 0)));
      auto value = hn::BitCast(d, hn::Xor(magnitude, hn::And(moved, sign)));
      if (kAdd && count == group) value = hn::Add(value, hn::LoadU(d, to + k));
      if (kStream && count == group)
        hn::Stream(value, d, to + k);
      else
        hn::StoreU(value, d, to + k);
    }
    if (count == group) continue;
    for (std::size_t k = 0; k < count; ++k) out[i + k] = kAdd ? out[i + k] + rest[k] : rest[k];
  }
}

void UnpackSigns(const std::uint8_t* bits, std::size_t n, float scale, float* out, bool add, bool stream) {
  if (add) return Unpack<true, false>(bits, n, scale, out);
  if (stream && reinterpret_cast<std::uintptr_t>(out) % 64 == 0) return Unpack<false, true>(bits, n, scale, out);
  Unpack<false, false>(bits, n, scale, out);
}

template <bool kSquares>
double Sum(const float* HWY_RESTRICT x, std::size_t n) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d), whole = n / 8 * 8;
  double sums[8];
  for (std::size_t k = 0; k < 8; k += lanes) {
    auto sum = hn::Zero(d);
    for (std::size_t i = k; i < whole; i += 8) {
      const auto v = hn::PromoteTo(d, hn::LoadU(df, x + i));
      sum = hn::Add(sum, kSquares ? hn::Mul(v, v) : hn::Abs(v));
    }
    hn::StoreU(sum, d, sums + k);
  }
  for (std::size_t i = whole; i < n; ++i) {
    const double v = x[i];
    sums[i - whole] += kSquares ? v * v : v < 0 ? -v : v;
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

double SumOfMagnitudes(const float* x, std::size_t n) { return Sum<false>(x, n); }
double SumOfSquares(const float* x, std::size_t n) { return Sum<true>(x, n); }

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(PackSigns);
HWY_EXPORT(UnpackSigns);
HWY_EXPORT(SumOfMagnitudes);
HWY_EXPORT(SumOfSquares);

void pack_signs(const float* x, std::size_t n, std::uint8_t* bits) { HWY_DYNAMIC_DISPATCH(PackSigns)(x, n, bits); }
void unpack_signs(const std::uint8_t* bits, std::size_t n, float scale, float* out, bool add, bool stream) {
  HWY_DYNAMIC_DISPATCH(UnpackSigns)(bits, n, scale, out, add, stream);
}
double sum_of_magnitudes(const float* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(SumOfMagnitudes)(x, n); }
double sum_of_squares(const float* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(SumOfSquares)(x, n); }

}  // namespace thinwire::simd
#endif  // HWY_ONCE
