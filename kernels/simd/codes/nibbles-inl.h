// Codes of 4 bits to a byte each, for the files of this folder that are compiled once per target.
#if defined(THINWIRE_KERNELS_SIMD_CODES_NIBBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef THINWIRE_KERNELS_SIMD_CODES_NIBBLES_INL_H_
#undef THINWIRE_KERNELS_SIMD_CODES_NIBBLES_INL_H_
#else
#define THINWIRE_KERNELS_SIMD_CODES_NIBBLES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace nibbles {
namespace hn = hwy::HWY_NAMESPACE;

/// Sixteen codes of eight bytes, in `apart`; of each byte the low half first, or the high one.
template <bool kHighFirst>
HWY_INLINE void Spread(const std::uint8_t* HWY_RESTRICT eight, std::uint8_t* HWY_RESTRICT apart) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t k = 0; k < 8; ++k) {
    const auto low = static_cast<std::uint8_t>(eight[k] & 15), high = static_cast<std::uint8_t>(eight[k] >> 4);
    apart[2 * k] = kHighFirst ? high : low, apart[2 * k + 1] = kHighFirst ? low : high;
  }
#else
  const hn::FixedTag<std::uint8_t, 8> bytes;
  const hn::FixedTag<std::uint16_t, 8> pairs;
  const auto v = hn::PromoteTo(pairs, hn::LoadU(bytes, eight));
  const auto low = hn::And(v, hn::Set(pairs, 15)), high = hn::ShiftRight<4>(v);
  // One store that the loads behind it lie in: pieces of it would have to wait.
  const auto spread = kHighFirst ? hn::Or(high, hn::ShiftLeft<8>(low)) : hn::Or(low, hn::ShiftLeft<8>(high));
  const hn::FixedTag<std::uint8_t, 16> codes;
  hn::StoreU(hn::BitCast(codes, spread), codes, apart);
#endif
}

/// Codes i .. i + count - 1, count at most 16 and i even, in `apart` (16 bytes); what lies beyond the last is of no meaning.
template <bool kHighFirst>
HWY_INLINE const std::uint8_t* CodesAt(const std::uint8_t* HWY_RESTRICT codes, std::size_t i, std::size_t count, std::uint8_t* HWY_RESTRICT apart) {
  if (count == 16) {
    Spread<kHighFirst>(codes + i / 2, apart);
    return apart;
  }
  std::uint8_t last[8] = {};
  std::memcpy(last, codes + i / 2, (count + 1) / 2);
  Spread<kHighFirst>(last, apart);
  return apart;
}

}  // namespace nibbles
}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
