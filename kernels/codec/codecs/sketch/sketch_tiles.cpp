#include "kernels/codec/codecs/sketch/sketch_tiles.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codec/codecs/sketch/sketch_tiles.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace thinwire::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using U32 = hn::RebindToUnsigned<F32>;

constexpr std::size_t rows_ahead = 8;  ///< neighbours of a tile lie a row apart, where the hardware's prefetcher does not look

void MaskedRows(const float* HWY_RESTRICT x, std::size_t first, const std::uint16_t* HWY_RESTRICT turns, const std::uint64_t* HWY_RESTRICT bits, std::size_t rows, std::uint32_t mark_value,
                float* HWY_RESTRICT tile) {
  const F32 d;
  const U32 du;
  const std::size_t lanes = hn::Lanes(d);
  const auto bit_of_lane = hn::Shl(hn::Set(du, 1), hn::Iota(du, 0));
  const auto mark = hn::BitCast(d, hn::Set(du, mark_value));
  float turned[sketch_tile_lanes];
  for (std::size_t r = 0; r < rows; ++r, x += sketch_lanes, tile += sketch_tile_lanes) {
    const std::size_t start = (first + turns[r]) % sketch_lanes, ahead = r + rows_ahead < rows ? (first + turns[r + rows_ahead]) % sketch_lanes : 0;
    for (std::size_t k = 0; k <= sketch_tile_lanes; k += 16) hwy::Prefetch(x + rows_ahead * sketch_lanes + ahead + k);
    const float* from = x + start;
    if (start > sketch_lanes - sketch_tile_lanes) {
      const std::size_t before = sketch_lanes - start;
      std::memcpy(turned, from, before * sizeof(float));
      std::memcpy(turned + before, x, (sketch_tile_lanes - before) * sizeof(float));
      from = turned;
    }
    for (std::size_t k = 0; k < sketch_tile_lanes; k += lanes) {
      const auto kept = hn::RebindMask(d, hn::TestBit(hn::Set(du, static_cast<std::uint32_t>(bits[r] >> k)), bit_of_lane));
      hn::StoreU(hn::IfThenElseZero(kept, hn::Or(hn::LoadU(d, from + k), mark)), d, tile + k);
    }
  }
}

std::uint32_t SumSignedRows(const float* HWY_RESTRICT tile, const std::uint32_t* HWY_RESTRICT starts, const std::uint32_t* HWY_RESTRICT counts, const std::uint32_t* HWY_RESTRICT entries,
                            std::size_t buckets, float* HWY_RESTRICT out, std::size_t stride) {
  const F32 d;
  const U32 du;
  const std::size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(du);
  const auto note = [&](hn::Vec<F32> sum) HWY_ATTR { largest = hn::Max(largest, hn::BitCast(du, hn::Abs(sum))); };
  for (std::size_t b = 0; b < buckets; ++b, out += stride)
    for (std::size_t k = 0; k < sketch_tile_lanes; k += 4 * lanes) {
      auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (std::uint32_t i = starts[b], end = i + counts[b]; i < end; ++i) {
        const auto sign = hn::BitCast(d, hn::Set(du, entries[i] & sketch_sign));
        const float* const row = tile + static_cast<std::size_t>(entries[i] & ~sketch_sign) * sketch_tile_lanes + k;
        sum0 = hn::Add(sum0, hn::Xor(hn::LoadU(d, row), sign));
        sum1 = hn::Add(sum1, hn::Xor(hn::LoadU(d, row + lanes), sign));
        sum2 = hn::Add(sum2, hn::Xor(hn::LoadU(d, row + 2 * lanes), sign));
        sum3 = hn::Add(sum3, hn::Xor(hn::LoadU(d, row + 3 * lanes), sign));
      }
      hn::StoreU(sum0, d, out + k);
      hn::StoreU(sum1, d, out + k + lanes);
      hn::StoreU(sum2, d, out + k + 2 * lanes);
      hn::StoreU(sum3, d, out + k + 3 * lanes);
      note(sum0), note(sum1), note(sum2), note(sum3);
    }
  return hn::GetLane(hn::MaxOfLanes(du, largest));
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(MaskedRows);
HWY_EXPORT(SumSignedRows);

void masked_rows(const float* x, std::size_t first, const std::uint16_t* turns, const std::uint64_t* bits, std::size_t rows, std::uint32_t mark, float* tile) {
  HWY_DYNAMIC_DISPATCH(MaskedRows)(x, first, turns, bits, rows, mark, tile);
}
std::uint32_t sum_signed_rows(const float* tile, const std::uint32_t* starts, const std::uint32_t* counts, const std::uint32_t* entries, std::size_t buckets, float* out,
                              std::size_t stride) {
  return HWY_DYNAMIC_DISPATCH(SumSignedRows)(tile, starts, counts, entries, buckets, out, stride);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
