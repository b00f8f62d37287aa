#include "kernels/simd/group_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/group_codes.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/nibbles-inl.h"

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

template <bool kDraws, CodePacking kPacking>
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
      return hn::And(hn::BitCast(du, hn::Add(hn::Min(hn::Max(y, low), high), magic)), mask);
    };
    std::size_t i = begin;
    if constexpr (kPacking == CodePacking::bytes) {
      for (; i + lanes <= end; i += lanes) {
        hwy::Prefetch(x + n + i);
        hn::StoreU(hn::TruncateTo(dbytes, code_of(x + i, draws + i)), dbytes, codes + i);
      }
    } else {
#if HWY_TARGET != HWY_SCALAR
      // Even and odd lanes of two vectors are the halves of as many bytes as a vector has lanes.
      for (; i + 2 * lanes <= end; i += 2 * lanes) {
        hwy::Prefetch(x + n + i);
        hwy::Prefetch(x + n + i + lanes);
        const auto first = code_of(x + i, draws + i), second = code_of(x + i + lanes, draws + i + lanes);
        const auto even = hn::ConcatEven(du, second, first), odd = hn::ConcatOdd(du, second, first);
        const auto packed = kPacking == CodePacking::high_first ? hn::Or(hn::ShiftLeft<4>(even), odd) : hn::Or(even, hn::ShiftLeft<4>(odd));
        hn::StoreU(hn::TruncateTo(dbytes, packed), dbytes, codes + i / 2);
      }
#endif
    }
    for (; i < end; i += lanes) {
      const std::size_t count = std::min(lanes, end - i);
      std::memset(values, 0, sizeof values);
      std::memcpy(values, x + i, count * sizeof(float));
      if constexpr (kDraws) {
        std::memset(own_draws, 0, sizeof own_draws);
        std::memcpy(own_draws, draws + i, count * sizeof(std::uint16_t));
      }
      hn::StoreU(hn::TruncateTo(dbytes, code_of(values, own_draws)), dbytes, apart);
      if constexpr (kPacking == CodePacking::bytes) {
        std::memcpy(codes + i, apart, count);
      } else {
        for (std::size_t k = 0; k < count; ++k) {
          const bool first = (i + k) % 2 == 0;
          const auto half = static_cast<std::uint8_t>(apart[k] << (first == (kPacking == CodePacking::high_first) ? 4 : 0));
          std::uint8_t& byte = codes[(i + k) / 2];
          byte = first ? half : static_cast<std::uint8_t>(byte | half);
        }
      }
    }
  }
}

template <bool kDraws>
void EncodePacked(const float* x, std::size_t n, std::size_t block, const float* factors, const float* offsets, float low, float high, std::uint8_t mask, const std::uint16_t* draws,
                  CodePacking packing, std::uint8_t* codes) {
  switch (packing) {
    case CodePacking::bytes:
      return EncodeGroups<kDraws, CodePacking::bytes>(x, n, block, factors, offsets, low, high, mask, draws, codes);
    case CodePacking::high_first:
      return EncodeGroups<kDraws, CodePacking::high_first>(x, n, block, factors, offsets, low, high, mask, draws, codes);
    case CodePacking::low_first:
      return EncodeGroups<kDraws, CodePacking::low_first>(x, n, block, factors, offsets, low, high, mask, draws, codes);
  }
}

void EncodeCodes(const float* x, std::size_t n, std::size_t block, const float* factors, const float* offsets, float low, float high, std::uint8_t mask, const std::uint16_t* draws,
                 CodePacking packing, std::uint8_t* codes) {
  draws != nullptr ? EncodePacked<true>(x, n, block, factors, offsets, low, high, mask, draws, packing, codes)
                   : EncodePacked<false>(x, n, block, factors, offsets, low, high, mask, draws, packing, codes);
}

/// Codes i .. i + count - 1, at most 16, a byte each, with as many bytes to read behind them.
template <CodePacking kPacking>
HWY_INLINE const std::uint8_t* CodesAt(const std::uint8_t* codes, std::size_t i, std::size_t count, std::uint8_t* apart) {
  if constexpr (kPacking == CodePacking::bytes) {
    if (count == 16) return codes + i;
    std::memset(apart, 0, 16);
    std::memcpy(apart, codes + i, count);
    return apart;
  } else {
    return nibbles::CodesAt<kPacking == CodePacking::high_first>(codes, i, count, apart);
  }
}

template <CodePacking kPacking, bool kAdd, bool kStream>
void DecodeGroups(const std::uint8_t* HWY_RESTRICT codes, std::size_t n, std::size_t block, const float* HWY_RESTRICT steps, const float* HWY_RESTRICT offsets, int bits,
                  float* HWY_RESTRICT out) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> dbytes;
  const std::size_t lanes = hn::Lanes(d);
  const int unused = 32 - bits;
  std::uint8_t apart[16];
  float values[16];
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto step = hn::Set(d, steps[b]), offset = hn::Set(d, offsets == nullptr ? 0.0f : offsets[b]);
    for (std::size_t i = begin; i < end; i += 16) {
      const std::size_t count = std::min<std::size_t>(16, end - i);
      const std::uint8_t* const from = CodesAt<kPacking>(codes, i, count, apart);
      float* const to = count == 16 ? out + i : values;
      for (std::size_t k = 0; k < 16; k += lanes) {
        const auto q = hn::ShiftRightSame(hn::ShiftLeftSame(hn::PromoteTo(di, hn::LoadU(dbytes, from + k)), unused), unused);
        auto value = hn::Add(hn::Mul(hn::ConvertTo(d, q), step), offset);
        if (kAdd && count == 16) value = hn::Add(value, hn::LoadU(d, to + k));
        if (kStream && count == 16)
          hn::Stream(value, d, to + k);
        else
          hn::StoreU(value, d, to + k);
      }
      if (count == 16) continue;
      for (std::size_t k = 0; k < count; ++k) out[i + k] = kAdd ? out[i + k] + values[k] : values[k];
    }
  }
}

template <CodePacking kPacking>
void DecodePacked(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* steps, const float* offsets, int bits, float* out, bool add, bool stream) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % 64 == 0 && block % 16 == 0;
  if (add) return DecodeGroups<kPacking, true, false>(codes, n, block, steps, offsets, bits, out);
  if (stream && aligned) return DecodeGroups<kPacking, false, true>(codes, n, block, steps, offsets, bits, out);
  DecodeGroups<kPacking, false, false>(codes, n, block, steps, offsets, bits, out);
}

void DecodeCodes(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* steps, const float* offsets, int bits, CodePacking packing, float* out, bool add, bool stream) {
  switch (packing) {
    case CodePacking::bytes:
      return DecodePacked<CodePacking::bytes>(codes, n, block, steps, offsets, bits, out, add, stream);
    case CodePacking::high_first:
      return DecodePacked<CodePacking::high_first>(codes, n, block, steps, offsets, bits, out, add, stream);
    case CodePacking::low_first:
      return DecodePacked<CodePacking::low_first>(codes, n, block, steps, offsets, bits, out, add, stream);
  }
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
                        const std::uint16_t* draws, CodePacking packing, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(EncodeCodes)(x, n, block, factors, offsets, low, high, mask, draws, packing, codes);
}
void decode_group_codes(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* steps, const float* offsets, int bits, CodePacking packing, float* out, bool add,
                        bool stream) {
  HWY_DYNAMIC_DISPATCH(DecodeCodes)(codes, n, block, steps, offsets, bits, packing, out, add, stream);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
