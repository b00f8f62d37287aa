#include "kernels/simd/mini_floats.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/mini_floats.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/nibbles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes: a block of 16 is whole vectors. Nibbles take two vectors at once: of 8 lanes for such blocks.
using Sixteen = hn::CappedTag<float, 16>;
using Eight = hn::CappedTag<float, 8>;
template <class D>
using IntegersOf = hn::RebindToSigned<D>;
template <class D>
using BytesOf = hn::Rebind<std::uint8_t, D>;

constexpr std::int32_t magnitude_mask = 0x7fffffff;

#if HWY_TARGET != HWY_SCALAR
/// Lane b is the largest of all lanes of block(b), for as many blocks as there are lanes: neighbours meet pair by pair, three operations a block.
template <std::size_t kBlocks, class V, class Block>
HWY_INLINE V LargestOfBlocks(const Block& block, std::size_t first) {
  if constexpr (kBlocks == 1) {
    return block(first);
  } else {
    const IntegersOf<Sixteen> di;
    const V lower = LargestOfBlocks<kBlocks / 2, V>(block, first), upper = LargestOfBlocks<kBlocks / 2, V>(block, first + kBlocks / 2);
    return hn::Max(hn::ConcatEven(di, upper, lower), hn::ConcatOdd(di, upper, lower));
  }
}
#endif

void BlockMaxima(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, std::uint32_t* HWY_RESTRICT maxima) {
  const Sixteen d;
  const IntegersOf<Sixteen> di;
  const std::size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(di, magnitude_mask);
  const auto sizes_at = [&](std::size_t i) HWY_ATTR { return hn::And(hn::BitCast(di, hn::LoadU(d, x + i)), mask); };
  std::size_t begin = 0, b = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t together = hn::MaxLanes(Sixteen());
  const auto block_at = [&](std::size_t number) HWY_ATTR {
    const std::size_t at = number * block;
    auto most = sizes_at(at);
    for (std::size_t i = lanes; i < block; i += lanes) most = hn::Max(most, sizes_at(at + i));
    return most;
  };
  if (block % lanes == 0)
    for (; begin + together * block <= n; begin += together * block, b += together)
      hn::StoreU(LargestOfBlocks<together, hn::Vec<IntegersOf<Sixteen>>>(block_at, b), di, reinterpret_cast<std::int32_t*>(maxima + b));
#endif
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
  }
}

/// What conversion needs of a format, in every lane.
template <class D>
struct Encoder {
  using F32 = D;
  using I32 = IntegersOf<D>;
  explicit HWY_INLINE Encoder(const MiniFloat& f)
      : largest(hn::Set(F32(), f.largest)),
        smallest_normal(hn::BitCast(F32(), hn::Set(I32(), (127 + f.min_exponent) << 23))),
        magic(hn::Set(I32(), (23 - f.mantissa) << 23)),
        constant(hn::Set(I32(), ((23 - f.mantissa) << 23) + ((127 + f.min_exponent) << f.mantissa))),
        shift(23 - f.mantissa),
        sign_shift(32 - f.bits),
        sign_bit(hn::Set(I32(), 1 << (f.bits - 1))) {}
  hn::Vec<F32> largest, smallest_normal;
  hn::Vec<I32> magic, constant;
  int shift, sign_shift;
  hn::Vec<I32> sign_bit;

  /// Codes of v * factor in the low bits of each lane.
  HWY_INLINE hn::Vec<I32> operator()(hn::Vec<F32> v, hn::Vec<F32> factor) const {
    const F32 d;
    const I32 di;
    const auto y = hn::Mul(v, factor);
    const auto size = hn::Min(hn::Abs(y), largest);
    // Adding 2^(e + 23 - mantissa), e the exponent of the number or of the smallest normal, leaves room for `mantissa` bits behind its first: the sum is rounded half
    // to even there, and its lowest bits are N = the number in steps of 2^(e - mantissa). Both normal and subnormal codes are N + (e - min_exponent << mantissa).
    const auto exponent = hn::And(hn::BitCast(di, hn::Max(size, smallest_normal)), hn::Set(di, 0x7f800000));
    const auto sum = hn::BitCast(di, hn::Add(size, hn::BitCast(d, hn::Add(exponent, magic))));
    const auto code = hn::Sub(hn::Add(hn::Sub(sum, exponent), hn::ShiftRightSame(exponent, shift)), constant);
    return hn::OrAnd(code, hn::BitCast(di, hn::ShiftRightSame(hn::BitCast(hn::RebindToUnsigned<D>(), y), sign_shift)), sign_bit);
  }
};

template <class D>
struct Decoder {
  using F32 = D;
  using I32 = IntegersOf<D>;
  explicit HWY_INLINE Decoder(const MiniFloat& f)
      : smallest_normal(hn::Set(I32(), 1 << f.mantissa)),
        of_subnormal(hn::BitCast(F32(), hn::Set(I32(), (127 + f.min_exponent - f.mantissa) << 23))),
        bias(hn::Set(I32(), (127 + f.min_exponent - 1) << 23)),
        mask(hn::Set(I32(), (1 << (f.bits - 1)) - 1)),
        sign_bit(hn::Set(I32(), 1 << (f.bits - 1))),
        shift(23 - f.mantissa),
        sign_shift(32 - f.bits) {}
  hn::Vec<I32> smallest_normal;
  hn::Vec<F32> of_subnormal;
  hn::Vec<I32> bias, mask, sign_bit;
  int shift, sign_shift;

  HWY_INLINE hn::Vec<F32> operator()(hn::Vec<I32> code) const {
    const F32 d;
    const auto size = hn::And(code, mask);
    const auto normal = hn::BitCast(d, hn::Add(hn::ShiftLeftSame(size, shift), bias));
    const auto subnormal = hn::Mul(hn::ConvertTo(d, size), of_subnormal);
    const auto value = hn::IfThenElse(hn::RebindMask(d, hn::Lt(size, smallest_normal)), subnormal, normal);
    return hn::Or(value, hn::BitCast(d, hn::ShiftLeftSame(hn::And(code, sign_bit), sign_shift)));
  }
};

template <class D, bool kNibbles>
void EncodeBlocks(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, const float* HWY_RESTRICT factors, const MiniFloat& format, std::uint8_t* HWY_RESTRICT codes) {
  const D d;
  [[maybe_unused]] const IntegersOf<D> di;
  const hn::RebindToUnsigned<D> du;
  const BytesOf<D> dbytes;
  const std::size_t lanes = hn::Lanes(d);
  const Encoder<D> code_of(format);
  std::uint8_t tail[16];
  float values[16];
  const auto store = [&](hn::Vec<IntegersOf<D>> code, std::uint8_t* to) HWY_ATTR { hn::StoreU(hn::TruncateTo(dbytes, hn::BitCast(du, code)), dbytes, to); };
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto factor = hn::Set(d, factors[b]);
    std::size_t i = begin;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kNibbles) {
      // Even and odd lanes of two vectors are the low and high halves of as many bytes as a vector has lanes.
      for (; i + 2 * lanes <= end; i += 2 * lanes) {
        hwy::Prefetch(x + n + i);
        hwy::Prefetch(x + n + i + lanes);
        const auto first = code_of(hn::LoadU(d, x + i), factor), second = code_of(hn::LoadU(d, x + i + lanes), factor);
        const auto even = hn::ConcatEven(di, second, first), odd = hn::ConcatOdd(di, second, first);
        store(hn::Or(even, hn::ShiftLeft<4>(odd)), codes + i / 2);
      }
    }
#endif
    for (; i < end; i += lanes) {
      const std::size_t count = std::min(lanes, end - i);
      if (!kNibbles && count == lanes) {
        hwy::Prefetch(x + n + i);
        store(code_of(hn::LoadU(d, x + i), factor), codes + i);
        continue;
      }
      std::memset(values, 0, sizeof values);
      std::memcpy(values, x + i, count * sizeof(float));
      store(code_of(hn::LoadU(d, values), factor), tail);
      if constexpr (kNibbles) {
        for (std::size_t k = 0; k < count; k += 2)
          codes[(i + k) / 2] = static_cast<std::uint8_t>(tail[k] | (k + 1 < count ? tail[k + 1] << 4 : 0));
      } else {
        std::memcpy(codes + i, tail, count);
      }
    }
  }
}

void Encode(const float* x, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, std::uint8_t* codes) {
  if (format.bits != 4) return EncodeBlocks<Sixteen, false>(x, n, block, factors, format, codes);
  block % 32 == 0 ? EncodeBlocks<Sixteen, true>(x, n, block, factors, format, codes) : EncodeBlocks<Eight, true>(x, n, block, factors, format, codes);
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

template <bool kNibbles, bool kAdd, bool kStream>
void DecodeBlocks(const std::uint8_t* HWY_RESTRICT codes, std::size_t n, std::size_t block, const float* HWY_RESTRICT factors, const MiniFloat& format, float* HWY_RESTRICT out) {
  const Sixteen d;
  const IntegersOf<Sixteen> di;
  const BytesOf<Sixteen> dbytes;
  const std::size_t lanes = hn::Lanes(d);
  const Decoder<Sixteen> value_of(format);
  std::uint8_t apart[16];
  float values[16];
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto factor = hn::Set(d, factors[b]);
    for (std::size_t i = begin; i < end; i += 16) {
      const std::size_t count = std::min<std::size_t>(16, end - i);
      const std::uint8_t* const from = CodesAt<kNibbles>(codes, i, count, apart);
      float* const to = count == 16 ? out + i : values;
      for (std::size_t k = 0; k < 16; k += lanes) {
        auto value = hn::Mul(value_of(hn::PromoteTo(di, hn::LoadU(dbytes, from + k))), factor);
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

template <bool kNibbles>
void DecodeInto(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, float* out, bool add, bool stream) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % (hn::Lanes(Sixteen()) * sizeof(float)) == 0 && block % 16 == 0;
  if (add) return DecodeBlocks<kNibbles, true, false>(codes, n, block, factors, format, out);
  if (stream && aligned) return DecodeBlocks<kNibbles, false, true>(codes, n, block, factors, format, out);
  DecodeBlocks<kNibbles, false, false>(codes, n, block, factors, format, out);
}

void Decode(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, float* out, bool add, bool stream) {
  format.bits == 4 ? DecodeInto<true>(codes, n, block, factors, format, out, add, stream) : DecodeInto<false>(codes, n, block, factors, format, out, add, stream);
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

void block_maxima(const float* x, std::size_t n, std::size_t block, std::uint32_t* maxima) { HWY_DYNAMIC_DISPATCH(BlockMaxima)(x, n, block, maxima); }
void encode_mini_floats(const float* x, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(Encode)(x, n, block, factors, format, codes);
}
void decode_mini_floats(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, float* out, bool add, bool stream) {
  HWY_DYNAMIC_DISPATCH(Decode)(codes, n, block, factors, format, out, add, stream);
}
bool mini_codes_fit(const std::uint8_t* codes, std::size_t n, int bits, std::uint8_t largest) { return HWY_DYNAMIC_DISPATCH(Fit)(codes, n, bits, largest); }

}  // namespace thinwire::simd
#endif  // HWY_ONCE
