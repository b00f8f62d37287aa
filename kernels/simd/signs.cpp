#include "kernels/simd/signs.h"

#include <cstring>

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/signs.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/fetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using U32 = hn::RebindToUnsigned<F32>;
constexpr std::size_t group = 16;  ///< values worked on together: two bytes of signs

/// Of a group.
HWY_INLINE void PackGroup(const float* HWY_RESTRICT x, std::uint8_t* HWY_RESTRICT bits) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  if (lanes >= 8) {
    for (std::size_t k = 0; k < group; k += lanes) hn::StoreMaskBits(d, hn::Lt(hn::LoadU(d, x + k), hn::Zero(d)), bits + k / 8);
    return;
  }
  bits[0] = bits[1] = 0;
  for (std::size_t k = 0; k < group; k += lanes) {
    std::uint8_t part = 0;
    hn::StoreMaskBits(d, hn::Lt(hn::LoadU(d, x + k), hn::Zero(d)), &part);
    bits[k / 8] = static_cast<std::uint8_t>(bits[k / 8] | part << k % 8);
  }
}

void PackSigns(const float* HWY_RESTRICT x, std::size_t n, std::uint8_t* HWY_RESTRICT bits) {
  std::size_t i = 0;
  for (; i + group <= n; i += group) {
    FetchAhead(x + i);
    PackGroup(x + i, bits + i / 8);
  }
  if (i == n) return;
  float rest[group] = {};
  std::uint8_t last[group / 8];
  std::memcpy(rest, x + i, (n - i) * sizeof(float));
  PackGroup(rest, last);
  std::memcpy(bits + i / 8, last, (n - i + 7) / 8);
}

template <bool kAdd, bool kStream>
HWY_INLINE void UnpackGroup(std::uint16_t word, float scale, float* HWY_RESTRICT out) {
  const F32 d;
  const U32 du;
  const auto magnitude = hn::BitCast(du, hn::Set(d, scale)), sign = hn::Set(du, 0x80000000u);
  for (std::size_t k = 0; k < group; k += hn::Lanes(d)) {
    const auto moved = hn::Shl(hn::Set(du, word), hn::Sub(hn::Set(du, static_cast<std::uint32_t>(31 - k)), hn::Iota(du, 0)));
    auto value = hn::BitCast(d, hn::Xor(magnitude, hn::And(moved, sign)));
    if constexpr (kAdd) value = hn::Add(value, hn::LoadU(d, out + k));
    if constexpr (kStream)
      hn::Stream(value, d, out + k);
    else
      hn::StoreU(value, d, out + k);
  }
}

template <bool kAdd, bool kStream>
void Unpack(const std::uint8_t* HWY_RESTRICT bits, std::size_t n, float scale, float* HWY_RESTRICT out) {
  std::size_t i = 0;
  for (; i + group <= n; i += group) {
    std::uint16_t word = 0;
    std::memcpy(&word, bits + i / 8, sizeof word);  // little-endian, as payloads are
    UnpackGroup<kAdd, kStream>(word, scale, out + i);
  }
  for (; i < n; ++i) {
    const float value = (bits[i / 8] >> i % 8 & 1) != 0 ? -scale : scale;
    out[i] = kAdd ? out[i] + value : value;
  }
}

void UnpackSigns(const std::uint8_t* bits, std::size_t n, float scale, float* out, bool add, bool stream) {
  if (add) return Unpack<true, false>(bits, n, scale, out);
  if (stream && reinterpret_cast<std::uintptr_t>(out) % 64 == 0) return Unpack<false, true>(bits, n, scale, out);
  Unpack<false, false>(bits, n, scale, out);
}

/// `bits` null: the sum alone.
template <bool kSquares, bool kPack>
double Sum(const float* HWY_RESTRICT x, std::size_t n, std::uint8_t* HWY_RESTRICT bits) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d), whole = n / group * group;
  const bool one_pass = 2 * lanes == group;  // two vectors hold all sums
  const auto term = [&](const float* from) HWY_ATTR {
    const auto v = hn::PromoteTo(d, hn::LoadU(df, from));
    return kSquares ? hn::Mul(v, v) : hn::Abs(v);  // squares of f32 are exact in f64: joined with the sum or not, they round alike
  };
  if (kPack) one_pass ? PackSigns(x + whole, n - whole, bits + whole / 8) : PackSigns(x, n, bits);
  double sums[group];
  for (std::size_t k = 0; k < group; k += 2 * lanes) {
    auto first = hn::Zero(d), second = first;
    for (std::size_t i = k; i < whole; i += group) {
      if (kPack && one_pass) {
        FetchAhead(x + i);
        PackGroup(x + i, bits + i / 8);
      }
      first = hn::Add(first, term(x + i)), second = hn::Add(second, term(x + i + lanes));
    }
    hn::StoreU(first, d, sums + k);
    hn::StoreU(second, d, sums + k + lanes);
  }
  for (std::size_t i = whole; i < n; ++i) {
    const double v = x[i];
    sums[i - whole] += kSquares ? v * v : v < 0 ? -v : v;
  }
  for (std::size_t half = group / 2; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}

double SumOfMagnitudes(const float* x, std::size_t n) { return Sum<false, false>(x, n, nullptr); }
double SumOfSquares(const float* x, std::size_t n) { return Sum<true, false>(x, n, nullptr); }
double PackAndSumMagnitudes(const float* x, std::size_t n, std::uint8_t* bits) { return Sum<false, true>(x, n, bits); }
double PackAndSumSquares(const float* x, std::size_t n, std::uint8_t* bits) { return Sum<true, true>(x, n, bits); }

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(PackSigns);
HWY_EXPORT(UnpackSigns);
HWY_EXPORT(SumOfMagnitudes);
HWY_EXPORT(SumOfSquares);
HWY_EXPORT(PackAndSumMagnitudes);
HWY_EXPORT(PackAndSumSquares);

void pack_signs(const float* x, std::size_t n, std::uint8_t* bits) { HWY_DYNAMIC_DISPATCH(PackSigns)(x, n, bits); }
void unpack_signs(const std::uint8_t* bits, std::size_t n, float scale, float* out, bool add, bool stream) {
  HWY_DYNAMIC_DISPATCH(UnpackSigns)(bits, n, scale, out, add, stream);
}
double sum_of_magnitudes(const float* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(SumOfMagnitudes)(x, n); }
double sum_of_squares(const float* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(SumOfSquares)(x, n); }
double pack_signs_and_sum_magnitudes(const float* x, std::size_t n, std::uint8_t* bits) { return HWY_DYNAMIC_DISPATCH(PackAndSumMagnitudes)(x, n, bits); }
double pack_signs_and_sum_squares(const float* x, std::size_t n, std::uint8_t* bits) { return HWY_DYNAMIC_DISPATCH(PackAndSumSquares)(x, n, bits); }

}  // namespace thinwire::simd
#endif  // HWY_ONCE
