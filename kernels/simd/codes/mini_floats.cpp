#include "kernels/simd/codes/mini_floats.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/codes/mini_floats.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/codes/block_trees-inl.h"
#include "kernels/simd/codes/nibbles-inl.h"
#include "kernels/simd/fetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes: a block of 16 is whole vectors.
using Sixteen = hn::CappedTag<float, 16>;
using Integers = hn::RebindToSigned<Sixteen>;
using Bytes = hn::Rebind<std::uint8_t, Sixteen>;

constexpr std::int32_t magnitude_mask = 0x7fffffff;

std::uint32_t BlockMaxima(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, std::uint32_t* HWY_RESTRICT maxima) {
  const Sixteen d;
  const Integers di;
  const std::size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(di, magnitude_mask);
  const auto sizes_at = [&](std::size_t i) HWY_ATTR { return hn::And(hn::BitCast(di, hn::LoadU(d, x + i)), mask); };
  auto all = hn::Zero(di);
  std::size_t begin = 0, b = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t together = hn::MaxLanes(Sixteen());
  const auto block_at = [&](std::size_t number) HWY_ATTR {
    const std::size_t at = number * block;
    auto most = sizes_at(at);
    for (std::size_t i = lanes; i < block; i += lanes) most = hn::Max(most, sizes_at(at + i));
    return most;
  };
  using Sizes = hn::Vec<Integers>;
  const auto larger = [di](Sizes lower, Sizes upper) HWY_ATTR { return hn::Max(hn::ConcatEven(di, upper, lower), hn::ConcatOdd(di, upper, lower)); };
  if (block % lanes == 0)
    for (; begin + together * block <= n; begin += together * block, b += together) {
      const auto largest = block_trees::JoinBlocks<together>(block_at, larger, b);
      all = hn::Max(all, largest);
      hn::StoreU(largest, di, reinterpret_cast<std::int32_t*>(maxima + b));
    }
#endif
  std::int32_t rest = 0;
  for (; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    auto most = hn::Zero(di);
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) most = hn::Max(most, sizes_at(i));
    std::int32_t found = hn::GetLane(hn::MaxOfLanes(di, most));
    for (; i < end; ++i) {
      std::int32_t bits;
      std::memcpy(&bits, x + i, sizeof bits);
      found = std::max(found, bits & magnitude_mask);
    }
    maxima[b] = static_cast<std::uint32_t>(found);
    rest = std::max(rest, found);
  }
  return static_cast<std::uint32_t>(std::max(rest, hn::GetLane(hn::MaxOfLanes(di, all))));
}

// Formats are template arguments: vectors are shifted by a constant in one instruction, by a number in two.

/// What conversion needs of a format, in every lane.
template <int kBits, int kMantissa>
struct Encoder {
  explicit HWY_INLINE Encoder(const MiniFloat& f)
      : largest(hn::Set(Sixteen(), f.largest)),
        smallest_normal(hn::BitCast(Sixteen(), hn::Set(Integers(), (127 + f.min_exponent) << 23))),
        magic(hn::Set(Integers(), ((23 - kMantissa) << 23) + (-((127 + f.min_exponent) << kMantissa) & 0xff))),
        sign_bit(hn::Set(Integers(), 1 << (kBits - 1))) {}
  hn::Vec<Sixteen> largest, smallest_normal;
  hn::Vec<Integers> magic, sign_bit;

  /// Codes of v * factor in the lowest byte of each lane; what is above has no meaning.
  HWY_INLINE hn::Vec<Integers> operator()(hn::Vec<Sixteen> v, hn::Vec<Sixteen> factor) const {
    const Sixteen d;
    const Integers di;
    const auto y = hn::Mul(v, factor);
    const auto size = hn::Min(hn::Abs(y), largest);
    // Adding 2^(e + 23 - mantissa), e the exponent of the number or of the smallest normal, leaves room for `mantissa` bits behind its first: the sum is rounded half
    // to even there, and its lowest bits are N = the number in steps of 2^(e - mantissa). Both normal and subnormal codes are N + (e - min_exponent << mantissa), of which
    // the shifted exponent gives e + 127, and the rest, modulo 2^8, is in `magic` already, an even number of steps.
    const auto exponent = hn::And(hn::BitCast(di, hn::Max(size, smallest_normal)), hn::Set(di, 0x7f800000));
    const auto sum = hn::BitCast(di, hn::Add(size, hn::BitCast(d, hn::Add(exponent, magic))));
    const auto code = hn::Add(sum, hn::ShiftRight<23 - kMantissa>(exponent));
    return hn::OrAnd(code, hn::BitCast(di, hn::ShiftRight<32 - kBits>(hn::BitCast(hn::RebindToUnsigned<Sixteen>(), y))), sign_bit);
  }
};

template <int kBits, int kMantissa>
struct Decoder {
  explicit HWY_INLINE Decoder(const MiniFloat& f)
      : smallest_normal(hn::Set(Integers(), 1 << kMantissa)),
        of_subnormal(hn::BitCast(Sixteen(), hn::Set(Integers(), (127 + f.min_exponent - kMantissa) << 23))),
        bias(hn::Set(Integers(), (127 + f.min_exponent - 1) << 23)),
        mask(hn::Set(Integers(), (1 << (kBits - 1)) - 1)),
        sign_bit(hn::Set(Integers(), 1 << (kBits - 1))) {}
  hn::Vec<Integers> smallest_normal;
  hn::Vec<Sixteen> of_subnormal;
  hn::Vec<Integers> bias, mask, sign_bit;

  HWY_INLINE hn::Vec<Sixteen> operator()(hn::Vec<Integers> code) const {
    const Sixteen d;
    const auto size = hn::And(code, mask);
    const auto normal = hn::BitCast(d, hn::Add(hn::ShiftLeft<23 - kMantissa>(size), bias));
    const auto subnormal = hn::Mul(hn::ConvertTo(d, size), of_subnormal);
    const auto value = hn::IfThenElse(hn::RebindMask(d, hn::Lt(size, smallest_normal)), subnormal, normal);
    return hn::Or(value, hn::BitCast(d, hn::ShiftLeft<32 - kBits>(hn::And(code, sign_bit))));
  }
};

/// Where a vector holds all values of four bits, they are looked up.
template <int kBits, int kMantissa>
struct Lookup {
  explicit HWY_INLINE Lookup(const MiniFloat& f) : values(Decoder<kBits, kMantissa>(f)(hn::Iota(Integers(), 0))) {}
  hn::Vec<Sixteen> values;

  HWY_INLINE hn::Vec<Sixteen> operator()(hn::Vec<Integers> code) const { return hn::TableLookupLanes(values, hn::IndicesFromVec(Sixteen(), code)); }
};

template <int kBits, int kMantissa>
struct Format {};

/// Calls body(Format<bits, mantissa>()).
template <class Body>
HWY_INLINE void WithFormat(const MiniFloat& f, const Body& body) {
  switch (f.bits << 4 | f.mantissa) {
    case 0x41:
      return body(Format<4, 1>());
    case 0x62:
      return body(Format<6, 2>());
    case 0x63:
      return body(Format<6, 3>());
    case 0x82:
      return body(Format<8, 2>());
    case 0x83:
      return body(Format<8, 3>());
    default:
      HWY_ABORT("no float of %d bits has %d of mantissa", f.bits, f.mantissa);
  }
}

HWY_INLINE void StoreBytes(hn::Vec<Integers> codes, std::uint8_t* to) {
  const Bytes dbytes;
  hn::StoreU(hn::TruncateTo(dbytes, hn::BitCast(hn::RebindToUnsigned<Sixteen>(), codes)), dbytes, to);
}

#if HWY_TARGET != HWY_SCALAR
/// Two vectors of x as nibbles: even and odd lanes are the low and high halves of as many bytes as a vector has lanes.
template <class Encode>
HWY_INLINE void EncodePair(const Encode& code_of, const float* HWY_RESTRICT x, hn::Vec<Sixteen> first_factor, hn::Vec<Sixteen> second_factor, std::uint8_t* HWY_RESTRICT codes) {
  const Sixteen d;
  const Integers di;
  const std::size_t lanes = hn::Lanes(d);
  const auto first = code_of(hn::LoadU(d, x), first_factor), second = code_of(hn::LoadU(d, x + lanes), second_factor);
  StoreBytes(hn::Or(hn::ConcatEven(di, second, first), hn::ShiftLeft<4>(hn::ConcatOdd(di, second, first))), codes);
}
#endif

template <int kBits, int kMantissa>
void EncodeBlocks(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, const float* HWY_RESTRICT factors, const MiniFloat& format, std::uint8_t* HWY_RESTRICT codes) {
  const Sixteen d;
  const std::size_t lanes = hn::Lanes(d);
  const Encoder<kBits, kMantissa> code_of(format);
  std::uint8_t tail[16];
  float values[16];
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto factor = hn::Set(d, factors[b]);
    std::size_t i = begin;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kBits == 4) {
      for (; i + 2 * lanes <= end; i += 2 * lanes) {
        FetchAhead(x + i);
        FetchAhead(x + i + lanes);
        EncodePair(code_of, x + i, factor, factor, codes + i / 2);
      }
    }
#endif
    if constexpr (kBits != 4) {
      for (; i + lanes <= end; i += lanes) {
        FetchAhead(x + i);
        StoreBytes(code_of(hn::LoadU(d, x + i), factor), codes + i);
      }
    }
    for (; i < end; i += lanes) {
      const std::size_t count = std::min(lanes, end - i);
      std::memset(values, 0, sizeof values);
      std::memcpy(values, x + i, count * sizeof(float));
      StoreBytes(code_of(hn::LoadU(d, values), factor), tail);
      if constexpr (kBits == 4) {
        for (std::size_t k = 0; k < count; ++k) {  // a vector of one lane ends within a byte
          std::uint8_t& byte = codes[(i + k) / 2];
          byte = (i + k) % 2 == 0 ? tail[k] : static_cast<std::uint8_t>(byte | tail[k] << 4);
        }
      } else {
        std::memcpy(codes + i, tail, count);
      }
    }
  }
}

template <int kBits, int kMantissa>
void EncodeAs(const float* x, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, std::uint8_t* codes) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Sixteen d;
  const std::size_t lanes = hn::Lanes(d);
  if (kBits == 4 && block == lanes) {  // a pair of vectors is two blocks
    const Encoder<kBits, kMantissa> code_of(format);
    for (; i + 2 * lanes <= n; i += 2 * lanes, factors += 2) {
      FetchAhead(x + i);
      FetchAhead(x + i + lanes);
      EncodePair(code_of, x + i, hn::Set(d, factors[0]), hn::Set(d, factors[1]), codes + i / 2);
    }
  }
#endif
  EncodeBlocks<kBits, kMantissa>(x + i, n - i, block, factors, format, codes + (kBits == 4 ? i / 2 : i));
}

void Encode(const float* x, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, std::uint8_t* codes) {
  WithFormat(format, [&]<int kBits, int kMantissa>(Format<kBits, kMantissa>) HWY_ATTR { EncodeAs<kBits, kMantissa>(x, n, block, factors, format, codes); });
}

/// Bytes of codes i .. i + 15, or fewer towards the end; missing ones are zero.
template <bool kNibbles>
HWY_INLINE const std::uint8_t* CodesAt(const std::uint8_t* codes, std::size_t i, std::size_t count, std::uint8_t* apart) {
  if constexpr (kNibbles) {
    return nibbles::CodesAt<false>(codes, i, count, apart);
  } else {
    if (count == 16) return codes + i;
    std::memset(apart, 0, 16);
    std::memcpy(apart, codes + i, count);
    return apart;
  }
}

template <int kBits, int kMantissa, bool kAdd, bool kStream>
void DecodeBlocks(const std::uint8_t* HWY_RESTRICT codes, std::size_t n, std::size_t block, const float* HWY_RESTRICT factors, const MiniFloat& format, float* HWY_RESTRICT out) {
  const Sixteen d;
  const Integers di;
  const Bytes dbytes;
  const std::size_t lanes = hn::Lanes(d);
  using Values = std::conditional_t<kBits == 4 && hn::MaxLanes(Sixteen()) == 16, Lookup<kBits, kMantissa>, Decoder<kBits, kMantissa>>;
  const Values value_of(format);
  // Where a processor can, the compiler joins a product and a sum to one rounding, but not across an operation on bits: zeros, which it does not know to be that.
  const hn::RebindToUnsigned<Sixteen> du;
  [[maybe_unused]] const auto nothing = hn::Set(du, static_cast<std::uint32_t>(n >> (8 * sizeof n - 1)));
  std::uint8_t apart[16];
  float values[16];
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto factor = hn::Set(d, factors[b]);
    const auto value_at = [&](const std::uint8_t* from) HWY_ATTR { return hn::Mul(value_of(hn::PromoteTo(di, hn::LoadU(dbytes, from))), factor); };
    std::size_t i = begin;
    for (; i + 16 <= end; i += 16) {
      const std::uint8_t* const from = CodesAt<kBits == 4>(codes, i, 16, apart);
      for (std::size_t k = 0; k < 16; k += lanes) {
        auto value = value_at(from + k);
        if constexpr (kAdd) value = hn::Add(hn::BitCast(d, hn::Or(hn::BitCast(du, value), nothing)), hn::LoadU(d, out + i + k));
        if constexpr (kStream)
          hn::Stream(value, d, out + i + k);
        else
          hn::StoreU(value, d, out + i + k);
      }
    }
    if (i == end) continue;
    const std::uint8_t* const from = CodesAt<kBits == 4>(codes, i, end - i, apart);
    for (std::size_t k = 0; k < 16; k += lanes) hn::StoreU(value_at(from + k), d, values + k);
    for (std::size_t k = 0; i + k < end; ++k) out[i + k] = kAdd ? out[i + k] + values[k] : values[k];
  }
}

template <int kBits, int kMantissa>
void DecodeAs(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, float* out, bool add, bool stream) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % (hn::Lanes(Sixteen()) * sizeof(float)) == 0 && block % 16 == 0;
  if (add) return DecodeBlocks<kBits, kMantissa, true, false>(codes, n, block, factors, format, out);
  if (stream && aligned) return DecodeBlocks<kBits, kMantissa, false, true>(codes, n, block, factors, format, out);
  DecodeBlocks<kBits, kMantissa, false, false>(codes, n, block, factors, format, out);
}

void Decode(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, float* out, bool add, bool stream) {
  WithFormat(format, [&]<int kBits, int kMantissa>(Format<kBits, kMantissa>) HWY_ATTR { DecodeAs<kBits, kMantissa>(codes, n, block, factors, format, out, add, stream); });
}

bool Fit(const std::uint8_t* codes, std::size_t n, int bits, std::uint8_t largest) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = static_cast<std::uint8_t>((1 << (bits - 1)) - 1);
  const auto mask = hn::Set(d, magnitude);
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) most = hn::Max(most, hn::And(hn::LoadU(d, codes + i), mask));
  const auto limit = hn::Set(d, largest);
  bool fit = hn::AllTrue(d, hn::Eq(hn::Max(most, limit), limit));
  for (; i < n; ++i) fit = fit && (codes[i] & magnitude) <= largest;
  return fit;
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(BlockMaxima);
HWY_EXPORT(Encode);
HWY_EXPORT(Decode);
HWY_EXPORT(Fit);

std::uint32_t block_maxima(const float* x, std::size_t n, std::size_t block, std::uint32_t* maxima) { return HWY_DYNAMIC_DISPATCH(BlockMaxima)(x, n, block, maxima); }
void encode_mini_floats(const float* x, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(Encode)(x, n, block, factors, format, codes);
}
void decode_mini_floats(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, float* out, bool add, bool stream) {
  HWY_DYNAMIC_DISPATCH(Decode)(codes, n, block, factors, format, out, add, stream);
}
bool mini_codes_fit(const std::uint8_t* codes, std::size_t n, int bits, std::uint8_t largest) { return HWY_DYNAMIC_DISPATCH(Fit)(codes, n, bits, largest); }

}  // namespace thinwire::simd
#endif  // HWY_ONCE
