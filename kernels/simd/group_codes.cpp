#include "kernels/simd/group_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/group_codes.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using U8 = hn::Rebind<std::uint8_t, F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;

constexpr std::size_t most_lanes = 64;  ///< of f32 on any target here; rests of blocks are worked on in arrays of so many

void Ranges(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, float* HWY_RESTRICT least, float* HWY_RESTRICT largest) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    auto low = hn::Set(d, x[begin]), high = low;
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      low = hn::Min(low, v), high = hn::Max(high, v);
    }
    float down = hn::GetLane(hn::MinOfLanes(d, low)), up = hn::GetLane(hn::MaxOfLanes(d, high));
    for (; i < end; ++i) down = std::min(down, x[i]), up = std::max(up, x[i]);
    least[b] = down, largest[b] = up;
  }
}

template <bool kDraws>
void EncodeGroups(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, const float* HWY_RESTRICT factors, const float* HWY_RESTRICT offsets, float low_value, float high_value,
                  std::uint8_t mask_value, const std::uint16_t* HWY_RESTRICT draws, std::uint8_t* HWY_RESTRICT codes) {
  const F32 d;
  const I32 di;
  const U32 du;
  const U8 dbytes;
  const U16 dwords;
  const std::size_t lanes = hn::Lanes(d);
  const auto low = hn::Set(d, low_value), high = hn::Set(d, high_value), magic = hn::Set(d, 0x1.8p23f);
  const auto mask = hn::Set(du, mask_value);
  float values[most_lanes];
  std::uint16_t own_draws[most_lanes];
  std::uint8_t apart[most_lanes];
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto factor = hn::Set(d, factors[b]), offset = hn::Set(d, offsets == nullptr ? 0.0f : offsets[b]);
    const auto code_of = [&](const float* from, const std::uint16_t* drawn) HWY_ATTR {
      auto y = hn::Mul(hn::Sub(hn::LoadU(d, from), offset), factor);
      if constexpr (kDraws) {
        const auto down = hn::Floor(y);
        const auto draw = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::PromoteTo(du, hn::LoadU(dwords, drawn)))), hn::Set(d, 0x1p-16f));
        y = hn::IfThenElse(hn::Lt(draw, hn::Sub(y, down)), hn::Add(down, hn::Set(d, 1.0f)), down);
      }
      // Adding 1.5 * 2^23 rounds half to even and leaves the integer in the low bits of the sum (two's complement).
      return hn::TruncateTo(dbytes, hn::And(hn::BitCast(du, hn::Add(hn::Min(hn::Max(y, low), high), magic)), mask));
    };
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      hwy::Prefetch(x + n + i);
      hn::StoreU(code_of(x + i, draws + i), dbytes, codes + i);
    }
    if (i == end) continue;
    std::memset(values, 0, sizeof values);
    std::memcpy(values, x + i, (end - i) * sizeof(float));
    if constexpr (kDraws) {
      std::memset(own_draws, 0, sizeof own_draws);
      std::memcpy(own_draws, draws + i, (end - i) * sizeof(std::uint16_t));
    }
    hn::StoreU(code_of(values, own_draws), dbytes, apart);
    std::memcpy(codes + i, apart, end - i);
  }
}

void EncodeCodes(const float* x, std::size_t n, std::size_t block, const float* factors, const float* offsets, float low, float high, std::uint8_t mask, const std::uint16_t* draws,
                 std::uint8_t* codes) {
  draws != nullptr ? EncodeGroups<true>(x, n, block, factors, offsets, low, high, mask, draws, codes) : EncodeGroups<false>(x, n, block, factors, offsets, low, high, mask, draws, codes);
}

template <bool kAdd>
void DecodeGroups(const std::uint8_t* HWY_RESTRICT codes, std::size_t n, std::size_t block, const float* HWY_RESTRICT steps, const float* HWY_RESTRICT offsets, int bits,
                  float* HWY_RESTRICT out) {
  const F32 d;
  const I32 di;
  const U8 dbytes;
  const std::size_t lanes = hn::Lanes(d);
  const int unused = 32 - bits;
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const float step = steps[b], offset = offsets == nullptr ? 0.0f : offsets[b];
    const auto step_lanes = hn::Set(d, step), offset_lanes = hn::Set(d, offset);
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const auto q = hn::ShiftRightSame(hn::ShiftLeftSame(hn::PromoteTo(di, hn::LoadU(dbytes, codes + i)), unused), unused);
      auto value = hn::Add(hn::Mul(hn::ConvertTo(d, q), step_lanes), offset_lanes);
      if (kAdd) value = hn::Add(value, hn::LoadU(d, out + i));
      hn::StoreU(value, d, out + i);
    }
    for (; i < end; ++i) {
      const int q = static_cast<std::int32_t>(static_cast<std::uint32_t>(codes[i]) << unused) >> unused;
      const float product = static_cast<float>(q) * step;  // rounded as the vectors': no fused multiplication
      const float value = product + offset;
      out[i] = kAdd ? out[i] + value : value;
    }
  }
}

void DecodeCodes(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* steps, const float* offsets, int bits, float* out, bool add) {
  add ? DecodeGroups<true>(codes, n, block, steps, offsets, bits, out) : DecodeGroups<false>(codes, n, block, steps, offsets, bits, out);
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(Ranges);
HWY_EXPORT(EncodeCodes);
HWY_EXPORT(DecodeCodes);

void block_ranges(const float* x, std::size_t n, std::size_t block, float* least, float* largest) { HWY_DYNAMIC_DISPATCH(Ranges)(x, n, block, least, largest); }
void encode_group_codes(const float* x, std::size_t n, std::size_t block, const float* factors, const float* offsets, float low, float high, std::uint8_t mask,
                        const std::uint16_t* draws, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(EncodeCodes)(x, n, block, factors, offsets, low, high, mask, draws, codes);
}
void decode_group_codes(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* steps, const float* offsets, int bits, float* out, bool add) {
  HWY_DYNAMIC_DISPATCH(DecodeCodes)(codes, n, block, steps, offsets, bits, out, add);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
