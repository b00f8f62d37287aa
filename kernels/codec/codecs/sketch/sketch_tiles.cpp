#include "kernels/codec/codecs/sketch/sketch_tiles.h"

#include <bit>
#include <cstring>

#include "core/simd_targets.h"

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

// The lanes `alone` of a row are the last unresolved elements of their counters in `bucket`: the row's other two counters lose them.
template <bool kReleased>
void PeelRow(const PeelTile& tile, std::size_t bucket, std::uint32_t entry, std::uint64_t alone) {
  const F32 d;
  const U32 du;
  const std::size_t row = entry & ~sketch_sign;
  const std::uint32_t* const to = tile.of_rows + 3 * row;
  // Just one of them: a row that falls into a bucket twice is alone there nowhere.
  const std::size_t here = ((to[1] & ~sketch_sign) == bucket ? 1u : 0u) + ((to[2] & ~sketch_sign) == bucket ? 2u : 0u);
  const std::uint32_t a = to[here == 0 ? 1 : 0], b = to[here == 2 ? 1 : 2];
  const std::uint64_t found = alone & tile.left[row];
  tile.left[row] ^= found;
  tile.given[3 * row + here] |= found;
  const std::size_t bucket_a = a & ~sketch_sign, bucket_b = b & ~sketch_sign;
  tile.again[bucket_a] = tile.again[bucket_b] = 1;
  const float* const own = tile.counters + bucket * sketch_tile_lanes;
  float *const to_a = tile.counters + bucket_a * sketch_tile_lanes, *const to_b = tile.counters + bucket_b * sketch_tile_lanes;
  const auto sign_a = hn::BitCast(d, hn::Set(du, (entry ^ a) & sketch_sign)), sign_b = hn::BitCast(d, hn::Set(du, (entry ^ b) & sketch_sign));
  const auto bit_of_lane = hn::Shl(hn::Set(du, 1), hn::Iota(du, 0));
  for (std::size_t k = 0; k < sketch_tile_lanes; k += hn::Lanes(d)) {
    const auto mask = hn::RebindMask(d, hn::TestBit(hn::Set(du, static_cast<std::uint32_t>(found >> k)), bit_of_lane));
    auto value = hn::LoadU(d, own + k);
    if constexpr (kReleased) value = hn::And(value, hn::BitCast(d, hn::Set(du, ~1u)));
    hn::StoreU(hn::Sub(hn::LoadU(d, to_a + k), hn::IfThenElseZero(mask, hn::Xor(value, sign_a))), d, to_a + k);
    hn::StoreU(hn::Sub(hn::LoadU(d, to_b + k), hn::IfThenElseZero(mask, hn::Xor(value, sign_b))), d, to_b + k);  // may be the same counters
  }
}

// A bucket's elements of 64 lanes are the words of its rows: seen once and not twice, in a lane, is a counter with one unresolved element. So nothing counts beyond two,
// where the authors' counts of 8 bits overflow at 256. One thread owns a lane: what is peeled may be used at once, and passes are fewer than with counts frozen for each.
template <bool kReleased>
int PeelAll(const PeelTile& tile) {
  std::memset(tile.again, 1, tile.buckets);
  int passes = 0;
  for (bool peeled = true; peeled; passes += peeled ? 1 : 0) {
    peeled = false;
    for (std::size_t bucket = 0; bucket < tile.buckets; ++bucket) {
      if (tile.again[bucket] == 0) continue;
      tile.again[bucket] = 0;
      const std::uint32_t *const first = tile.entries + tile.starts[bucket], *const end = tile.entries + tile.starts[bucket + 1];
      std::uint64_t once = 0, twice = 0;
      for (const std::uint32_t* entry = first; entry < end; ++entry) {
        const std::uint64_t left = tile.left[*entry & ~sketch_sign];
        twice |= once & left;
        once |= left;
      }
      const std::uint64_t alone = once & ~twice;
      if (alone == 0) continue;
      peeled = true;
      for (const std::uint32_t* entry = first; entry < end; entry += sketch_block) {
        unsigned found = 0;  // which of a block of entries, so that no branch asks each of them
        for (std::size_t i = 0; i < sketch_block; ++i) found |= ((alone & tile.left[entry[i] & ~sketch_sign]) != 0 ? 1u : 0u) << i;
        for (; found != 0; found &= found - 1) PeelRow<kReleased>(tile, bucket, entry[std::countr_zero(found)], alone);
      }
    }
  }
  return passes;
}

int Peel(const PeelTile& tile, bool released) { return released ? PeelAll<true>(tile) : PeelAll<false>(tile); }

std::uint32_t PeeledRows(const PeelTile& tile, bool released, std::size_t first_row, std::size_t rows, const std::uint16_t* HWY_RESTRICT turns, std::size_t first, float* HWY_RESTRICT out) {
  const F32 d;
  const U32 du;
  const std::size_t lanes = hn::Lanes(d);
  const auto bit_of_lane = hn::Shl(hn::Set(du, 1), hn::Iota(du, 0));
  const auto kept_bits = hn::BitCast(d, hn::Set(du, released ? ~1u : ~0u));
  auto largest = hn::Zero(du);
  float turned[sketch_tile_lanes];
  for (std::size_t row = first_row; row < first_row + rows; ++row, out += sketch_lanes) {
    const std::size_t start = (first + turns[row]) % sketch_lanes, before = sketch_lanes - start;
    const std::size_t ahead = row + rows_ahead < first_row + rows ? (first + turns[row + rows_ahead]) % sketch_lanes : 0;
    for (std::size_t k = 0; k <= sketch_tile_lanes; k += 16) hwy::Prefetch(out + rows_ahead * sketch_lanes + ahead + k);
    const bool wraps = before < sketch_tile_lanes;
    float* const to = wraps ? turned : out + start;
    const std::uint32_t* const entry = tile.of_rows + 3 * row;
    const std::uint64_t* const given = tile.given + 3 * row;
    const float* const from[3] = {tile.counters + (entry[0] & ~sketch_sign) * sketch_tile_lanes, tile.counters + (entry[1] & ~sketch_sign) * sketch_tile_lanes,
                                  tile.counters + (entry[2] & ~sketch_sign) * sketch_tile_lanes};
    for (std::size_t k = 0; k < sketch_tile_lanes; k += lanes) {
      auto value = hn::Zero(d);
      for (std::size_t j = 0; j < 3; ++j) {
        const auto mask = hn::RebindMask(d, hn::TestBit(hn::Set(du, static_cast<std::uint32_t>(given[j] >> k)), bit_of_lane));
        const auto sign = hn::BitCast(d, hn::Set(du, entry[j] & sketch_sign));
        value = hn::IfThenElse(mask, hn::And(hn::Xor(hn::LoadU(d, from[j] + k), sign), kept_bits), value);
      }
      hn::StoreU(value, d, to + k);
      largest = hn::Max(largest, hn::BitCast(du, hn::Abs(value)));
    }
    if (!wraps) continue;
    std::memcpy(out + start, turned, before * sizeof(float));
    std::memcpy(out, turned + before, (sketch_tile_lanes - before) * sizeof(float));
  }
  return hn::GetLane(hn::MaxOfLanes(du, largest));
}

}  // namespace thinwire::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::simd {

HWY_EXPORT(MaskedRows);
HWY_EXPORT(SumSignedRows);
HWY_EXPORT(Peel);
HWY_EXPORT(PeeledRows);

void masked_rows(const float* x, std::size_t first, const std::uint16_t* turns, const std::uint64_t* bits, std::size_t rows, std::uint32_t mark, float* tile) {
  HWY_DYNAMIC_DISPATCH(MaskedRows)(x, first, turns, bits, rows, mark, tile);
}
std::uint32_t sum_signed_rows(const float* tile, const std::uint32_t* starts, const std::uint32_t* counts, const std::uint32_t* entries, std::size_t buckets, float* out,
                              std::size_t stride) {
  return HWY_DYNAMIC_DISPATCH(SumSignedRows)(tile, starts, counts, entries, buckets, out, stride);
}
int peel(const PeelTile& tile, bool released) { return HWY_DYNAMIC_DISPATCH(Peel)(tile, released); }
std::uint32_t peeled_rows(const PeelTile& tile, bool released, std::size_t first_row, std::size_t rows, const std::uint16_t* turns, std::size_t first, float* out) {
  return HWY_DYNAMIC_DISPATCH(PeeledRows)(tile, released, first_row, rows, turns, first, out);
}

}  // namespace thinwire::simd
#endif  // HWY_ONCE
