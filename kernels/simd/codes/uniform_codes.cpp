#include "kernels/simd/codes/uniform_codes.h"

#include <algorithm>
#include <cmath>

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/codes/uniform_codes.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using U8 = hn::Rebind<std::uint8_t, F32>;

// std::nearbyint rounds half to even in the default rounding mode, as NearestInt does.
HWY_INLINE std::uint32_t ScalarCode(float x, float divisor, float half) {
  const float y = std::min(std::max(x / divisor * half, -half), half - 1);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::nearbyint(y)) +
                                    static_cast<std::int32_t>(half));
}

template <int kChunks>
void QuantizeRow(const float* HWY_RESTRICT x, const float* HWY_RESTRICT divisor,
                 const float* HWY_RESTRICT inverse, std::size_t columns, int bits, const float* next,
                 std::uint8_t* HWY_RESTRICT out) {
  const F32 d;
  const I32 di;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t width = (columns + kChunks - 1) / kChunks;
  const float half_value = static_cast<float>(1 << (bits - 1));
  const auto half = hn::Set(d, half_value), low = hn::Set(d, -half_value), high = hn::Set(d, half_value - 1);
  // Adding 1.5 * 2^23 rounds to an integer, half to even, and leaves it in the low bits of the sum (two's
  // complement). What the addition leaves above them is cut off when the byte is stored.
  const auto magic = hn::Set(d, 0x1.8p23f);
  const auto to_code = hn::Set(di, kChunks == 1   ? 1 << (bits - 1)
                                   : kChunks == 2 ? 0x88
                                                  : 0xaa);  // half, per chunk
  // The product with the inverse is within 2^-15 of the quotient, so both round alike unless the product lies
  // that close to a tie. `doubt` collects the distances from the rounded values; near a half the division
  // decides.
  auto doubt = hn::Zero(d);
  const auto near_tie = hn::Set(d, 0.5f - 0x1p-14f);
  const auto code_at = [&](std::size_t c) HWY_ATTR {
    hwy::Prefetch(next + c);
    const auto y = hn::Min(hn::Max(hn::Mul(hn::LoadU(d, x + c), hn::LoadU(d, inverse + c)), low), high);
    const auto sum = hn::Add(y, magic);
    doubt = hn::Max(doubt, hn::Abs(hn::Sub(y, hn::Sub(sum, magic))));
    return hn::BitCast(di, sum);
  };
  const auto exact_code_at = [&](std::size_t c) HWY_ATTR {
    const auto y = hn::Mul(hn::Div(hn::LoadU(d, x + c), hn::LoadU(d, divisor + c)), half);
    return hn::BitCast(di, hn::Add(hn::Min(hn::Max(y, low), high), magic));
  };
  const auto packed_at = [&](std::size_t at, const auto& code) HWY_ATTR {
    if constexpr (kChunks == 1) {
      return code(at);
    } else if constexpr (kChunks == 2) {
      return hn::Add(hn::ShiftLeft<4>(code(at)), code(width + at));
    } else {
      const auto upper = hn::Add(hn::ShiftLeft<2>(code(at)), code(width + at));
      const auto lower = hn::Add(hn::ShiftLeft<2>(code(2 * width + at)), code(3 * width + at));
      return hn::Add(hn::ShiftLeft<4>(upper), lower);
    }
  };
  // Vectors while every chunk has its columns; the last chunk may be shorter.
  const std::size_t full = columns > (kChunks - 1) * width ? columns - (kChunks - 1) * width : 0;
  std::size_t i = 0;
  for (; i + lanes <= full; i += lanes) {
    auto packed = packed_at(i, code_at);
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Gt(doubt, near_tie)))) {
      packed = packed_at(i, exact_code_at);
      doubt = hn::Zero(d);
    }
    const auto bytes = hn::BitCast(hn::RebindToUnsigned<I32>(), hn::Add(packed, to_code));
    hn::StoreU(hn::TruncateTo(U8(), bytes), U8(), out + i);
  }
  for (; i < width; ++i) {
    std::uint32_t packed = 0;
    for (std::size_t j = 0; j < kChunks; ++j) {
      const std::size_t c = j * width + i;
      packed = packed << bits | (c < columns ? ScalarCode(x[c], divisor[c], half_value)
                                             : static_cast<std::uint32_t>(half_value));
    }
    out[i] = static_cast<std::uint8_t>(packed);
  }
}

template <int kChunks, bool kAdd, bool kStream>
void DequantizeRow(const std::uint8_t* HWY_RESTRICT in, const float* HWY_RESTRICT step, std::size_t columns,
                   int bits, float* HWY_RESTRICT out) {
  const F32 d;
  const I32 di;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t width = (columns + kChunks - 1) / kChunks;
  const auto middle = hn::Set(di, 1 << (bits - 1)), mask = hn::Set(di, (1 << bits) - 1);
  const std::size_t full = columns > (kChunks - 1) * width ? columns - (kChunks - 1) * width : 0;
  std::size_t i = 0;
  for (; i + lanes <= full; i += lanes) {
    const auto packed = hn::PromoteTo(di, hn::LoadU(U8(), in + i));
    for (std::size_t j = 0; j < kChunks; ++j) {
      const std::size_t c = j * width + i;
      const auto code =
          kChunks == 1 ? packed
                       : hn::And(hn::ShiftRightSame(packed, bits * static_cast<int>(kChunks - 1 - j)), mask);
      auto value = hn::Mul(hn::ConvertTo(d, hn::Sub(code, middle)), hn::LoadU(d, step + c));
      if (kAdd) value = hn::Add(value, hn::LoadU(d, out + c));
      if (kStream)
        hn::Stream(value, d, out + c);
      else
        hn::StoreU(value, d, out + c);
    }
  }
  for (; i < width; ++i)
    for (std::size_t j = 0; j < kChunks; ++j) {
      const std::size_t c = j * width + i;
      if (c >= columns) break;
      const int code = in[i] >> (bits * static_cast<int>(kChunks - 1 - j)) & ((1 << bits) - 1);
      const float value = static_cast<float>(code - (1 << (bits - 1))) * step[c];
      out[c] = kAdd ? out[c] + value : value;
    }
}

void Quantize(const float* x, const float* divisor, const float* inverse, std::size_t columns,
              std::size_t chunks, int bits, const float* next, std::uint8_t* out) {
  switch (chunks) {
    case 1:
      return QuantizeRow<1>(x, divisor, inverse, columns, bits, next, out);
    case 2:
      return QuantizeRow<2>(x, divisor, inverse, columns, bits, next, out);
    default:
      return QuantizeRow<4>(x, divisor, inverse, columns, bits, next, out);
  }
}

template <bool kAdd, bool kStream>
void DequantizeChunks(const std::uint8_t* in, const float* step, std::size_t columns, std::size_t chunks,
                      int bits, float* out) {
  switch (chunks) {
    case 1:
      return DequantizeRow<1, kAdd, kStream>(in, step, columns, bits, out);
    case 2:
      return DequantizeRow<2, kAdd, kStream>(in, step, columns, bits, out);
    default:
      return DequantizeRow<4, kAdd, kStream>(in, step, columns, bits, out);
  }
}
void Dequantize(const std::uint8_t* in, const float* step, std::size_t columns, std::size_t chunks, int bits,
                float* out, bool add, bool stream) {
  const std::size_t vector_bytes = hn::Lanes(F32()) * sizeof(float);
  const std::size_t width_bytes = (columns + chunks - 1) / chunks * sizeof(float);
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % vector_bytes == 0 &&
                       (chunks == 1 || width_bytes % vector_bytes == 0);
  if (add) return DequantizeChunks<true, false>(in, step, columns, chunks, bits, out);
  if (stream && aligned) return DequantizeChunks<false, true>(in, step, columns, chunks, bits, out);
  return DequantizeChunks<false, false>(in, step, columns, chunks, bits, out);
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(Quantize);
HWY_EXPORT(Dequantize);

void quantize_row(const float* x, const float* divisor, const float* inverse, std::size_t columns,
                  std::size_t chunks, int bits, const float* next, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(Quantize)(x, divisor, inverse, columns, chunks, bits, next, out);
}
void dequantize_row(const std::uint8_t* in, const float* step, std::size_t columns, std::size_t chunks,
                    int bits, float* out, bool add, bool stream) {
  HWY_DYNAMIC_DISPATCH(Dequantize)(in, step, columns, chunks, bits, out, add, stream);
}
void stream_fence() {
  hwy::FlushStream();
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
