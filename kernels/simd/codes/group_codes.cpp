#include "kernels/simd/codes/group_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/simd_targets.h"
#include "kernels/simd/magnitude.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/codes/group_codes.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/codes/block_trees-inl.h"
#include "kernels/simd/codes/nibbles-inl.h"
#include "kernels/simd/fetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;
using U8 = hn::Rebind<std::uint8_t, F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;
using Sixteen = hn::CappedTag<float, 16>;

constexpr std::size_t most_lanes = 64;  ///< of f32 on any target here; rests of blocks are worked on in arrays of so many

/// What lanes of blocks hold.
struct RangeOfLanes {
  hn::Vec<Sixteen> low, high;
};

bool Ranges(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, float* HWY_RESTRICT least, float* HWY_RESTRICT largest) {
  const Sixteen d;
  const hn::RebindToSigned<Sixteen> di;
  const std::size_t lanes = hn::Lanes(d);
  [[maybe_unused]] const auto zero = hn::Zero(d);
  const auto mask = hn::Set(di, 0x7fffffff);
  auto sizes = hn::Zero(di);  // comparisons of floats do not see NaN
  const auto load = [&](std::size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    sizes = hn::Max(sizes, hn::And(hn::BitCast(di, v), mask));
    return v;
  };
  const auto range_of = [&](std::size_t begin, std::size_t end) HWY_ATTR {
    const auto first = load(begin);
    RangeOfLanes r{first, first};
    for (std::size_t i = begin + lanes; i + lanes <= end; i += lanes) {
      const auto v = load(i);
      r.low = hn::Min(r.low, v), r.high = hn::Max(r.high, v);
    }
    return r;
  };
  // Adding 0 makes every zero positive: of both zeros, which one a comparison keeps depends on its order.
  std::size_t begin = 0, b = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t together = hn::MaxLanes(Sixteen());
  const auto of = [&](std::size_t number) HWY_ATTR { return range_of(number * block, (number + 1) * block); };
  const auto join = [d](const RangeOfLanes& lower, const RangeOfLanes& upper) HWY_ATTR {
    return RangeOfLanes{hn::Min(hn::ConcatEven(d, upper.low, lower.low), hn::ConcatOdd(d, upper.low, lower.low)),
                        hn::Max(hn::ConcatEven(d, upper.high, lower.high), hn::ConcatOdd(d, upper.high, lower.high))};
  };
  if (block % lanes == 0)
    for (; begin + together * block <= n; begin += together * block, b += together) {
      const RangeOfLanes r = block_trees::JoinBlocks<together>(of, join, b);
      hn::StoreU(hn::Add(r.low, zero), d, least + b);
      hn::StoreU(hn::Add(r.high, zero), d, largest + b);
    }
#endif
  std::uint32_t most = 0;
  for (; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block), whole = (end - begin) / lanes * lanes;
    float down = x[begin], up = down;
    if (whole > 0) {
      const RangeOfLanes r = range_of(begin, end);
      down = hn::GetLane(hn::MinOfLanes(d, r.low)), up = hn::GetLane(hn::MaxOfLanes(d, r.high));
    }
    for (std::size_t i = begin + whole; i < end; ++i) down = std::min(down, x[i]), up = std::max(up, x[i]), most = std::max(most, magnitude_bits(x[i]));
    least[b] = down + 0.0f, largest[b] = up + 0.0f;
  }
  return std::max(most, static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, sizes)))) < non_finite_bits;
}

/// In the lowest bits; a store of just as many bytes as are read back.
HWY_INLINE std::uint64_t BitsOf(hn::Mask<Sixteen> mask) {
  using Word = std::conditional_t<hn::MaxLanes(Sixteen()) == 16, std::uint16_t, std::uint8_t>;
  Word bits = 0;
  hn::StoreMaskBits(Sixteen(), mask, reinterpret_cast<std::uint8_t*>(&bits));
  return bits;
}

void Places(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, const float* HWY_RESTRICT least, const float* HWY_RESTRICT largest, std::uint16_t* HWY_RESTRICT at_least,
            std::uint16_t* HWY_RESTRICT at_largest) {
  const Sixteen d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto low = hn::Set(d, least[b]), high = hn::Set(d, largest[b]);
    bool low_missing = true, high_missing = true;
    // 64 elements become bits: a branch for every vector would be mispredicted in most blocks.
    for (std::size_t at = begin; at < end && (low_missing || high_missing); at += 64) {
      const std::size_t stop = std::min(end, at + 64);
      std::uint64_t lows = 0, highs = 0;
      std::size_t i = at;
      for (; i + lanes <= stop; i += lanes) {
        const auto v = hn::LoadU(d, x + i);
        lows |= BitsOf(hn::Eq(v, low)) << (i - at), highs |= BitsOf(hn::Eq(v, high)) << (i - at);
      }
      for (; i < stop; ++i) lows |= std::uint64_t{x[i] == least[b]} << (i - at), highs |= std::uint64_t{x[i] == largest[b]} << (i - at);
      if (low_missing && lows != 0) at_least[b] = static_cast<std::uint16_t>(at - begin + static_cast<std::size_t>(std::countr_zero(lows))), low_missing = false;
      if (high_missing && highs != 0) at_largest[b] = static_cast<std::uint16_t>(at - begin + static_cast<std::size_t>(std::countr_zero(highs))), high_missing = false;
    }
  }
}

void InverseSteps(const float* HWY_RESTRICT steps, std::size_t n, float* HWY_RESTRICT factors) {
  const hn::CappedTag<float, 4> d;  // steps were just written four at a time: longer loads would wait until the stores are through
  const std::size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0f), most = hn::Set(d, std::numeric_limits<float>::max());
  const auto inverse_of = [&](const float* from) HWY_ATTR {
    const auto step = hn::LoadU(d, from), inverse = hn::Div(one, step);
    return hn::IfThenElse(hn::Eq(step, zero), zero, hn::IfThenElse(hn::Gt(hn::Abs(inverse), most), hn::CopySign(most, step), inverse));
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(inverse_of(steps + i), d, factors + i);
  if (i == n) return;
  float rest[4] = {};
  std::memcpy(rest, steps + i, (n - i) * sizeof(float));
  hn::StoreU(inverse_of(rest), d, rest);
  std::memcpy(factors + i, rest, (n - i) * sizeof(float));
}

template <bool kDraws, bool kOffsets, CodePacking kPacking>
void EncodeGroups(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, const float* HWY_RESTRICT factors, const float* HWY_RESTRICT offsets, float low_value, float high_value,
                  std::uint8_t mask_value, const std::uint16_t* HWY_RESTRICT draws, std::uint8_t* HWY_RESTRICT codes) {
  const F32 d;
  const I32 di;
  const U32 du;
  const U8 dbytes;
  const U16 dwords;
  const std::size_t lanes = hn::Lanes(d);
  const auto low = hn::Set(d, low_value), high = hn::Set(d, high_value), magic = hn::Set(d, 0x1.8p23f);
  const auto mask = hn::Set(dbytes, mask_value);
  float values[most_lanes];
  std::uint16_t own_draws[most_lanes];
  std::uint8_t apart[most_lanes];
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto factor = hn::Set(d, factors[b]), offset = hn::Set(d, kOffsets ? offsets[b] : 0.0f);
    const auto code_of = [&](const float* from, const std::uint16_t* drawn) HWY_ATTR {
      auto y = hn::LoadU(d, from);
      if constexpr (kOffsets) y = hn::Sub(y, offset);
      y = hn::Mul(y, factor);
      if constexpr (kDraws) {
        const auto down = hn::Floor(y);
        const auto draw = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::PromoteTo(du, hn::LoadU(dwords, drawn)))), hn::Set(d, 0x1p-16f));
        y = hn::IfThenElse(hn::Lt(draw, hn::Sub(y, down)), hn::Add(down, hn::Set(d, 1.0f)), down);
      }
      // Adding 1.5 * 2^23 rounds half to even and leaves the integer in the low bits of the sum (two's complement).
      return hn::BitCast(du, hn::Add(hn::Min(hn::Max(y, low), high), magic));
    };
    const auto bytes_of = [&](const float* from, const std::uint16_t* drawn) HWY_ATTR { return hn::And(hn::TruncateTo(dbytes, code_of(from, drawn)), mask); };
    std::size_t i = begin;
    if constexpr (kPacking == CodePacking::bytes) {
      for (; i + lanes <= end; i += lanes) {
        FetchAhead(x + i);
        hn::StoreU(bytes_of(x + i, draws + i), dbytes, codes + i);
      }
    } else {
#if HWY_TARGET != HWY_SCALAR
      // Even and odd lanes of two vectors are the halves of as many bytes as a vector has lanes.
      const auto half = hn::Set(du, 15);
      for (; i + 2 * lanes <= end; i += 2 * lanes) {
        FetchAhead(x + i);
        FetchAhead(x + i + lanes);
        const auto first = code_of(x + i, draws + i), second = code_of(x + i + lanes, draws + i + lanes);
        const auto even = hn::ConcatEven(du, second, first), odd = hn::ConcatOdd(du, second, first);
        const auto packed = kPacking == CodePacking::high_first ? hn::OrAnd(hn::ShiftLeft<4>(even), odd, half) : hn::OrAnd(hn::ShiftLeft<4>(odd), even, half);
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
      hn::StoreU(bytes_of(values, own_draws), dbytes, apart);
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

template <bool kDraws, bool kOffsets>
void EncodePacked(const float* x, std::size_t n, std::size_t block, const float* factors, const float* offsets, float low, float high, std::uint8_t mask, const std::uint16_t* draws,
                  CodePacking packing, std::uint8_t* codes) {
  switch (packing) {
    case CodePacking::bytes:
      return EncodeGroups<kDraws, kOffsets, CodePacking::bytes>(x, n, block, factors, offsets, low, high, mask, draws, codes);
    case CodePacking::high_first:
      return EncodeGroups<kDraws, kOffsets, CodePacking::high_first>(x, n, block, factors, offsets, low, high, mask, draws, codes);
    case CodePacking::low_first:
      return EncodeGroups<kDraws, kOffsets, CodePacking::low_first>(x, n, block, factors, offsets, low, high, mask, draws, codes);
  }
}

void EncodeCodes(const float* x, std::size_t n, std::size_t block, const float* factors, const float* offsets, float low, float high, std::uint8_t mask, const std::uint16_t* draws,
                 CodePacking packing, std::uint8_t* codes) {
  const auto encode = draws != nullptr ? (offsets != nullptr ? EncodePacked<true, true> : EncodePacked<true, false>)
                                       : (offsets != nullptr ? EncodePacked<false, true> : EncodePacked<false, false>);
  encode(x, n, block, factors, offsets, low, high, mask, draws, packing, codes);
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

/// Codes of a byte each as numbers, of kBits bits, or of `bits` where that is 0. Shifts by a constant are one instruction, by a number two.
template <int kBits, class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> NumbersAt(D, const std::uint8_t* HWY_RESTRICT codes, int bits) {
  const hn::RebindToSigned<D> di;
  if constexpr (kBits == 8) {
    return hn::PromoteTo(di, hn::LoadU(hn::Rebind<std::int8_t, D>(), reinterpret_cast<const std::int8_t*>(codes)));
  } else {
    const auto code = hn::PromoteTo(di, hn::LoadU(hn::Rebind<std::uint8_t, D>(), codes));
    if constexpr (kBits > 0)
      return hn::ShiftRight<32 - kBits>(hn::ShiftLeft<32 - kBits>(code));
    else
      return hn::ShiftRightSame(hn::ShiftLeftSame(code, 32 - bits), 32 - bits);
  }
}

template <CodePacking kPacking, int kBits, bool kAdd, bool kStream>
void DecodeGroups(const std::uint8_t* HWY_RESTRICT codes, std::size_t n, std::size_t block, const float* HWY_RESTRICT steps, const float* HWY_RESTRICT offsets, int bits,
                  float* HWY_RESTRICT out) {
  const Sixteen d;
  const std::size_t lanes = hn::Lanes(d);
  // Zeros of which the compiler does not know it: where a processor can, it joins a product and a sum to one rounding, but not across an operation on bits.
  const hn::RebindToUnsigned<Sixteen> du;
  const auto nothing = hn::Set(du, static_cast<std::uint32_t>(n >> (8 * sizeof n - 1)));
  std::uint8_t apart[16];
  float values[16];
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto step = hn::Set(d, steps[b]), offset = hn::Set(d, offsets == nullptr ? 0.0f : offsets[b]);
    const auto value_at = [&](const std::uint8_t* from) HWY_ATTR {
      const auto product = hn::Mul(hn::ConvertTo(d, NumbersAt<kBits>(d, from, bits)), step);
      return hn::Add(hn::BitCast(d, hn::Or(hn::BitCast(du, product), nothing)), offset);
    };
    std::size_t i = begin;
    for (; i + 16 <= end; i += 16) {
      const std::uint8_t* const from = CodesAt<kPacking>(codes, i, 16, apart);
      for (std::size_t k = 0; k < 16; k += lanes) {
        auto value = value_at(from + k);
        if constexpr (kAdd) value = hn::Add(value, hn::LoadU(d, out + i + k));
        if constexpr (kStream)
          hn::Stream(value, d, out + i + k);
        else
          hn::StoreU(value, d, out + i + k);
      }
    }
    if (i == end) continue;
    const std::uint8_t* const from = CodesAt<kPacking>(codes, i, end - i, apart);
    for (std::size_t k = 0; k < 16; k += lanes) hn::StoreU(value_at(from + k), d, values + k);
    for (std::size_t k = 0; i + k < end; ++k) out[i + k] = kAdd ? out[i + k] + values[k] : values[k];
  }
}

template <CodePacking kPacking, int kBits>
void DecodePacked(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* steps, const float* offsets, int bits, float* out, bool add, bool stream) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % 64 == 0 && block % 16 == 0;
  if (add) return DecodeGroups<kPacking, kBits, true, false>(codes, n, block, steps, offsets, bits, out);
  if (stream && aligned) return DecodeGroups<kPacking, kBits, false, true>(codes, n, block, steps, offsets, bits, out);
  DecodeGroups<kPacking, kBits, false, false>(codes, n, block, steps, offsets, bits, out);
}

void DecodeCodes(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* steps, const float* offsets, int bits, CodePacking packing, float* out, bool add, bool stream) {
  switch (packing) {
    case CodePacking::bytes:
      if (bits == 8) return DecodePacked<CodePacking::bytes, 8>(codes, n, block, steps, offsets, bits, out, add, stream);
      return DecodePacked<CodePacking::bytes, 0>(codes, n, block, steps, offsets, bits, out, add, stream);
    case CodePacking::high_first:
      return DecodePacked<CodePacking::high_first, 4>(codes, n, block, steps, offsets, bits, out, add, stream);
    case CodePacking::low_first:
      return DecodePacked<CodePacking::low_first, 4>(codes, n, block, steps, offsets, bits, out, add, stream);
  }
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(Ranges);
HWY_EXPORT(Places);
HWY_EXPORT(InverseSteps);
HWY_EXPORT(EncodeCodes);
HWY_EXPORT(DecodeCodes);

bool block_ranges(const float* x, std::size_t n, std::size_t block, float* least, float* largest) { return HWY_DYNAMIC_DISPATCH(Ranges)(x, n, block, least, largest); }
void block_places(const float* x, std::size_t n, std::size_t block, const float* least, const float* largest, std::uint16_t* at_least, std::uint16_t* at_largest) {
  HWY_DYNAMIC_DISPATCH(Places)(x, n, block, least, largest, at_least, at_largest);
}
void inverse_steps(const float* steps, std::size_t n, float* factors) { HWY_DYNAMIC_DISPATCH(InverseSteps)(steps, n, factors); }
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
