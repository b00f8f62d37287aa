#include "kernels/simd/codes/book_codes.h"

#include <cstring>

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/codes/book_codes.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/fetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
using U8 = hn::Rebind<std::uint8_t, F32>;
constexpr std::size_t group = 16;  ///< values worked on together

void EncodeNearest(const float* HWY_RESTRICT x, std::size_t n, float divisor, const MagnitudeCells& table, std::uint8_t* HWY_RESTRICT codes) {
  constexpr int low_bits = MagnitudeCells::low_bits;
  const F32 d;
  const U32 du;
  const I32 di;
  const U8 dbytes;
  const std::size_t lanes = hn::Lanes(d);
  const std::uint32_t* const cells = table.cells.data();
  const auto by = hn::Set(d, divisor);
  const auto least = hn::Set(du, table.first << low_bits), first = hn::Set(du, table.first), low = hn::Set(du, (std::uint32_t{1} << low_bits) - 1);
  const auto zero = hn::Set(du, table.zero), negatives = hn::Set(du, table.negatives), magnitude = hn::Set(du, 0x7fffffffu);
  const auto code_of = [&](const float* from) HWY_ATTR {
    const auto y = hn::Div(hn::LoadU(d, from), by);
    const auto bits = hn::Max(hn::And(hn::BitCast(du, y), magnitude), least);
    const auto cell = hn::GatherIndex(du, cells, hn::BitCast(di, hn::Sub(hn::ShiftRight<low_bits>(bits), first)));
    const auto m = hn::ShiftRight<low_bits>(hn::Add(cell, hn::And(bits, low)));
    const auto negative = hn::RebindMask(du, hn::Lt(y, hn::Zero(d)));
    return hn::TruncateTo(dbytes, hn::IfThenElse(negative, hn::Sub(zero, hn::Min(m, negatives)), hn::Add(zero, m)));
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    FetchAhead(x + i);
    hn::StoreU(code_of(x + i), dbytes, codes + i);
  }
  if (i == n) return;
  float rest[group] = {};
  std::uint8_t last[group];
  std::memcpy(rest, x + i, (n - i) * sizeof(float));
  hn::StoreU(code_of(rest), dbytes, last);
  std::memcpy(codes + i, last, n - i);
}

template <bool kAdd, bool kStream>
void Decode(const std::uint8_t* HWY_RESTRICT codes, std::size_t n, const float* HWY_RESTRICT book, float factor, float* HWY_RESTRICT out) {
  const F32 d;
  const I32 di;
  const U8 dbytes;
  const std::size_t lanes = hn::Lanes(d);
  // Products once per value of the book: also, no compiler joins product and sum where a processor can.
  HWY_ALIGN float values[256];
  for (std::size_t k = 0; k < 256; k += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, book + k), hn::Set(d, factor)), d, values + k);
  const auto value_of = [&](const std::uint8_t* from) HWY_ATTR { return hn::GatherIndex(d, values, hn::PromoteTo(di, hn::LoadU(dbytes, from))); };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto value = value_of(codes + i);
    if constexpr (kAdd) value = hn::Add(value, hn::LoadU(d, out + i));
    if constexpr (kStream)
      hn::Stream(value, d, out + i);
    else
      hn::StoreU(value, d, out + i);
  }
  for (; i < n; ++i) out[i] = kAdd ? out[i] + values[codes[i]] : values[codes[i]];
}

void DecodeBook(const std::uint8_t* codes, std::size_t n, const float* book, float factor, float* out, bool add, bool stream) {
  if (add) return Decode<true, false>(codes, n, book, factor, out);
  if (stream && reinterpret_cast<std::uintptr_t>(out) % 64 == 0) return Decode<false, true>(codes, n, book, factor, out);
  Decode<false, false>(codes, n, book, factor, out);
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(EncodeNearest);
HWY_EXPORT(DecodeBook);

void encode_nearest(const float* x, std::size_t n, float divisor, const MagnitudeCells& cells, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(EncodeNearest)(x, n, divisor, cells, codes);
}
void decode_book(const std::uint8_t* codes, std::size_t n, const float* book, float factor, float* out, bool add, bool stream) {
  HWY_DYNAMIC_DISPATCH(DecodeBook)(codes, n, book, factor, out, add, stream);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
