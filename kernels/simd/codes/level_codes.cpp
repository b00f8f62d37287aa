#include "kernels/simd/codes/level_codes.h"

#include <algorithm>
#include <cstring>

#include "core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/codes/level_codes.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/simd/fetch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void EncodeLevels(const float* HWY_RESTRICT x, std::size_t n, std::size_t block, const float* HWY_RESTRICT divisors, float levels, const std::uint32_t* HWY_RESTRICT draws,
                  std::uint8_t* HWY_RESTRICT codes) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint8_t, decltype(d)> dbytes;
  const std::size_t lanes = hn::Lanes(d);
  const auto most = hn::Set(d, levels), one = hn::Set(d, 1.0f), unit = hn::Set(d, 0x1p-24f);
  for (std::size_t begin = 0, b = 0; begin < n; begin += block, ++b) {
    const std::size_t end = std::min(n, begin + block);
    const auto divisor = hn::Set(d, divisors[b]);
    const auto bytes_of = [&](const float* from, const std::uint32_t* drawn) HWY_ATTR {
      const auto v = hn::LoadU(d, from);
      const auto y = hn::Mul(hn::Div(hn::Abs(v), divisor), most), whole = hn::Floor(y);
      const auto draw = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(du, drawn)))), unit);
      const auto level = hn::Min(most, hn::Add(whole, hn::IfThenElseZero(hn::Lt(draw, hn::Sub(y, whole)), one)));
      return hn::TruncateTo(dbytes, hn::BitCast(du, hn::ConvertTo(di, hn::CopySign(level, v))));
    };
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      FetchAhead(x + i);
      hn::StoreU(bytes_of(x + i, draws + i), dbytes, codes + i);
    }
    if (i == end) continue;
    float values[16] = {};
    std::uint32_t drawn[16] = {};
    std::uint8_t last[16];
    std::memcpy(values, x + i, (end - i) * sizeof(float));
    std::memcpy(drawn, draws + i, (end - i) * sizeof(std::uint32_t));
    hn::StoreU(bytes_of(values, drawn), dbytes, last);
    std::memcpy(codes + i, last, end - i);
  }
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(EncodeLevels);

void encode_levels(const float* x, std::size_t n, std::size_t block, const float* divisors, float levels, const std::uint32_t* draws, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(EncodeLevels)(x, n, block, divisors, levels, draws, codes);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
