#include "kernels/simd/exponent_bytes.h"

#include <algorithm>
#include <cstring>

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/exponent_bytes.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// Every function has a loop over vectors, and a scalar one for what is left.
HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void TakeApartHalf(const std::uint16_t* HWY_RESTRICT x, std::size_t n, std::uint8_t* HWY_RESTRICT exponents, std::uint8_t* HWY_RESTRICT rest) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint16_t, 32> d;
  const hn::Rebind<std::uint8_t, decltype(d)> dbytes;
  const std::size_t lanes = hn::Lanes(d);
  for (; i + lanes <= n; i += lanes) {
    hwy::Prefetch(x + n + i);
    const auto v = hn::LoadU(d, x + i);
    hn::StoreU(hn::TruncateTo(dbytes, hn::ShiftRight<7>(v)), dbytes, exponents + i);
    hn::StoreU(hn::TruncateTo(dbytes, hn::Or(hn::And(hn::ShiftRight<8>(v), hn::Set(d, 0x80)), hn::And(v, hn::Set(d, 0x7f)))), dbytes, rest + i);
  }
#endif
  for (; i < n; ++i) {
    exponents[i] = static_cast<std::uint8_t>(x[i] >> 7);
    rest[i] = static_cast<std::uint8_t>((x[i] >> 8 & 0x80) | (x[i] & 0x7f));
  }
}

std::uint16_t TakeApartFloat(const float* HWY_RESTRICT x, std::size_t n, std::uint8_t* HWY_RESTRICT exponents, std::uint8_t* HWY_RESTRICT rest, std::byte* HWY_RESTRICT low) {
  std::size_t i = 0;
  std::uint32_t seen = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint32_t, 16> d;
  const hn::Rebind<std::uint8_t, decltype(d)> dbytes;
  const hn::Rebind<std::uint16_t, decltype(d)> dhalves;
  const hn::Repartition<std::uint8_t, decltype(dhalves)> dlow;
  const std::size_t lanes = hn::Lanes(d);
  auto any = hn::Zero(d);
  for (; i + lanes <= n; i += lanes) {
    hwy::Prefetch(x + n + i);
    const auto v = hn::BitCast(d, hn::LoadU(hn::RebindToFloat<decltype(d)>(), x + i));
    any = hn::Or(any, v);
    hn::StoreU(hn::TruncateTo(dbytes, hn::ShiftRight<23>(v)), dbytes, exponents + i);
    hn::StoreU(hn::TruncateTo(dbytes, hn::Or(hn::And(hn::ShiftRight<24>(v), hn::Set(d, 0x80)), hn::And(hn::ShiftRight<16>(v), hn::Set(d, 0x7f)))), dbytes, rest + i);
    hn::StoreU(hn::BitCast(dlow, hn::TruncateTo(dhalves, v)), dlow, reinterpret_cast<std::uint8_t*>(low) + 2 * i);
  }
  HWY_ALIGN std::uint32_t words[16] = {};
  hn::Store(any, d, words);
  for (const std::uint32_t word : words) seen |= word;
#endif
  for (; i < n; ++i) {
    std::uint32_t v = 0;
    std::memcpy(&v, x + i, sizeof v);
    seen |= v;
    exponents[i] = static_cast<std::uint8_t>(v >> 23);
    rest[i] = static_cast<std::uint8_t>((v >> 24 & 0x80) | (v >> 16 & 0x7f));
    std::memcpy(low + 2 * i, &v, 2);  // little-endian, as payloads are
  }
  return static_cast<std::uint16_t>(seen);
}

void PutTogetherHalf(const std::uint8_t* HWY_RESTRICT exponents, const std::uint8_t* HWY_RESTRICT rest, std::size_t n, std::uint16_t* HWY_RESTRICT out) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint16_t, 32> d;
  const hn::Rebind<std::uint8_t, decltype(d)> dbytes;
  const std::size_t lanes = hn::Lanes(d);
  for (; i + lanes <= n; i += lanes) {
    const auto e = hn::PromoteTo(d, hn::LoadU(dbytes, exponents + i)), r = hn::PromoteTo(d, hn::LoadU(dbytes, rest + i));
    const auto sign = hn::ShiftLeft<8>(hn::And(r, hn::Set(d, 0x80)));
    hn::StoreU(hn::Or(hn::Or(sign, hn::ShiftLeft<7>(e)), hn::And(r, hn::Set(d, 0x7f))), d, out + i);
  }
#endif
  for (; i < n; ++i) out[i] = static_cast<std::uint16_t>((rest[i] & 0x80) << 8 | exponents[i] << 7 | (rest[i] & 0x7f));
}

template <bool kLow>
void PutTogether(const std::uint8_t* HWY_RESTRICT exponents, const std::uint8_t* HWY_RESTRICT rest, const std::byte* HWY_RESTRICT low, std::size_t n, float* HWY_RESTRICT out) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint32_t, 16> d;
  const hn::RebindToFloat<decltype(d)> df;
  const hn::Rebind<std::uint8_t, decltype(d)> dbytes;
  const hn::Rebind<std::uint16_t, decltype(d)> dhalves;
  const hn::Repartition<std::uint8_t, decltype(dhalves)> dlow;
  const std::size_t lanes = hn::Lanes(d);
  for (; i + lanes <= n; i += lanes) {
    const auto e = hn::PromoteTo(d, hn::LoadU(dbytes, exponents + i)), r = hn::PromoteTo(d, hn::LoadU(dbytes, rest + i));
    const auto upper = hn::Or(hn::ShiftLeft<24>(hn::And(r, hn::Set(d, 0x80))), hn::ShiftLeft<16>(hn::And(r, hn::Set(d, 0x7f))));
    auto v = hn::Or(upper, hn::ShiftLeft<23>(e));
    if constexpr (kLow) v = hn::Or(v, hn::PromoteTo(d, hn::BitCast(dhalves, hn::LoadU(dlow, reinterpret_cast<const std::uint8_t*>(low) + 2 * i))));
    hn::StoreU(hn::BitCast(df, v), df, out + i);
  }
#endif
  for (; i < n; ++i) {
    std::uint16_t half = 0;
    if constexpr (kLow) std::memcpy(&half, low + 2 * i, sizeof half);
    const std::uint32_t v = std::uint32_t{rest[i] & 0x80u} << 24 | std::uint32_t{exponents[i]} << 23 | std::uint32_t{rest[i] & 0x7fu} << 16 | half;
    std::memcpy(out + i, &v, sizeof v);
  }
}

void PutTogetherFloat(const std::uint8_t* exponents, const std::uint8_t* rest, const std::byte* low, std::size_t n, float* out) {
  low != nullptr ? PutTogether<true>(exponents, rest, low, n, out) : PutTogether<false>(exponents, rest, low, n, out);
}

std::uint8_t LargestByte(const std::uint8_t* HWY_RESTRICT x, std::size_t n) {
  std::size_t i = 0;
  std::uint8_t largest = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint8_t, 64> d;
  const std::size_t lanes = hn::Lanes(d);
  auto most = hn::Zero(d);
  for (; i + lanes <= n; i += lanes) most = hn::Max(most, hn::LoadU(d, x + i));
  HWY_ALIGN std::uint8_t bytes[64] = {};
  hn::Store(most, d, bytes);
  for (const std::uint8_t byte : bytes) largest = std::max(largest, byte);
#endif
  for (; i < n; ++i) largest = std::max(largest, x[i]);
  return largest;
}

std::size_t CountBytes(const std::uint8_t* HWY_RESTRICT x, std::size_t n, std::uint8_t value) {
  std::size_t i = 0, count = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint8_t, 64> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto wanted = hn::Set(d, value);
  for (; i + lanes <= n; i += lanes) count += hn::CountTrue(d, hn::Eq(hn::LoadU(d, x + i), wanted));
#endif
  for (; i < n; ++i) count += x[i] == value ? 1 : 0;
  return count;
}

void WindowCodes(const std::uint8_t* HWY_RESTRICT exponents, std::size_t n, std::uint8_t top, std::uint64_t* HWY_RESTRICT planes) {
  auto* const bytes = reinterpret_cast<std::uint8_t*>(planes);
  const std::size_t plane = n / 8;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint8_t, 64> d;
  const auto highest = hn::Set(d, top), escape = hn::Set(d, 7);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto e = hn::LoadU(d, exponents + i);
    const auto code = hn::IfThenElse(hn::Gt(e, highest), escape, hn::Min(hn::Sub(highest, e), escape));
    hn::StoreMaskBits(d, hn::TestBit(code, hn::Set(d, 1)), bytes + i / 8);
    hn::StoreMaskBits(d, hn::TestBit(code, hn::Set(d, 2)), bytes + plane + i / 8);
    hn::StoreMaskBits(d, hn::TestBit(code, hn::Set(d, 4)), bytes + 2 * plane + i / 8);
  }
#else
  std::memset(bytes, 0, 3 * plane);
  for (std::size_t i = 0; i < n; ++i) {
    const int code = exponents[i] > top ? 7 : std::min(top - exponents[i], 7);
    for (std::size_t p = 0; p < 3; ++p) bytes[p * plane + i / 8] |= static_cast<std::uint8_t>((code >> p & 1) << i % 8);
  }
#endif
}

void WindowExponents(const std::uint64_t* HWY_RESTRICT planes, std::size_t n, std::uint8_t top, std::uint8_t* HWY_RESTRICT exponents) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(planes);
  const std::size_t plane = n / 8;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<std::uint8_t, 64> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    auto e = hn::Set(d, top);
    e = hn::Sub(e, hn::IfThenElseZero(hn::LoadMaskBits(d, bytes + i / 8), hn::Set(d, 1)));
    e = hn::Sub(e, hn::IfThenElseZero(hn::LoadMaskBits(d, bytes + plane + i / 8), hn::Set(d, 2)));
    e = hn::Sub(e, hn::IfThenElseZero(hn::LoadMaskBits(d, bytes + 2 * plane + i / 8), hn::Set(d, 4)));
    hn::StoreU(e, d, exponents + i);
  }
#else
  for (std::size_t i = 0; i < n; ++i) {
    int code = 0;
    for (std::size_t p = 0; p < 3; ++p) code |= (bytes[p * plane + i / 8] >> i % 8 & 1) << p;
    exponents[i] = static_cast<std::uint8_t>(top - code);
  }
#endif
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(TakeApartHalf);
HWY_EXPORT(TakeApartFloat);
HWY_EXPORT(PutTogetherHalf);
HWY_EXPORT(PutTogetherFloat);
HWY_EXPORT(LargestByte);
HWY_EXPORT(CountBytes);
HWY_EXPORT(WindowCodes);
HWY_EXPORT(WindowExponents);

void take_apart(const std::uint16_t* x, std::size_t n, std::uint8_t* exponents, std::uint8_t* rest) { HWY_DYNAMIC_DISPATCH(TakeApartHalf)(x, n, exponents, rest); }
std::uint16_t take_apart(const float* x, std::size_t n, std::uint8_t* exponents, std::uint8_t* rest, std::byte* low) {
  return HWY_DYNAMIC_DISPATCH(TakeApartFloat)(x, n, exponents, rest, low);
}
void put_together(const std::uint8_t* exponents, const std::uint8_t* rest, std::size_t n, std::uint16_t* out) { HWY_DYNAMIC_DISPATCH(PutTogetherHalf)(exponents, rest, n, out); }
void put_together(const std::uint8_t* exponents, const std::uint8_t* rest, const std::byte* low, std::size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(PutTogetherFloat)(exponents, rest, low, n, out);
}
std::uint8_t largest_byte(const std::uint8_t* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(LargestByte)(x, n); }
std::size_t count_bytes(const std::uint8_t* x, std::size_t n, std::uint8_t value) { return HWY_DYNAMIC_DISPATCH(CountBytes)(x, n, value); }
void window_codes(const std::uint8_t* exponents, std::size_t n, std::uint8_t top, std::uint64_t* planes) { HWY_DYNAMIC_DISPATCH(WindowCodes)(exponents, n, top, planes); }
void window_exponents(const std::uint64_t* planes, std::size_t n, std::uint8_t top, std::uint8_t* exponents) { HWY_DYNAMIC_DISPATCH(WindowExponents)(planes, n, top, exponents); }

}  // namespace thinwire::simd
#endif  // HWY_ONCE
