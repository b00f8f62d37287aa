#include "kernels/codec/codecs/sketch/row_sketch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/simd/magnitude.h"
#include "kernels/codec/codecs/sketch/sketch_tiles.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::int64_t width = simd::sketch_tile_lanes;
constexpr std::int64_t tiles_per_row = RowSketch::lanes / width;

float with_sign(float value, std::uint32_t entry) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (entry & simd::sketch_sign)); }
float without_mark(float value) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~1u); }

float median(float a, float b, float c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }
// The authors': a == b, and products too small for f32, give c.
float released_median(float a, float b, float c) { return (a - b) * (a - c) < 0 ? a : (b - a) * (b - c) < 0 ? b : c; }

/// Body(offset in the row, offset in the tile, count) for the one or two pieces of a tile's lanes from `start` on that lie in the first `length` lanes of a row.
template <typename Body>
void for_pieces(std::int64_t start, std::int64_t length, const Body& body) {
  const std::int64_t before = std::min(width, RowSketch::lanes - start);
  if (start < length) body(start, std::int64_t{0}, std::min(before, length - start));
  if (before < width) body(std::int64_t{0}, before, std::min(width - before, length));
}

/// Calls body(tile, thread) for all of a message, on several threads where it is large.
template <typename Body>
void for_tiles(std::int64_t rows, const Body& body) {
  parallel_ranges(tiles_per_row, std::max<std::int64_t>(1, default_grain / (rows * width)), 1, [&](std::int64_t first, std::int64_t last, int thread) {
    for (std::int64_t t = first; t < last; ++t) body(t, thread);
  });
}

}  // namespace

std::vector<RowSketch::Tile>& RowSketch::tiles() {
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  while (tiles_.size() < threads) tiles_.emplace_back();
  for (Tile& tile : tiles_) {
    tile.y = tile.counters.as<float>(static_cast<std::size_t>(hash_.buckets() * width));
    tile.left = tile.unresolved.as<std::uint64_t>(static_cast<std::size_t>(hash_.rows() + 1));
    tile.x = tile.values.as<float>(static_cast<std::size_t>(hash_.rows() * width));
    tile.again = tile.changed.as<std::uint8_t>(static_cast<std::size_t>(hash_.buckets()));
  }
  return tiles_;
}

void RowSketch::load_index(Tile& tile, std::span<const std::uint64_t> words, std::int64_t t) const {
  const std::uint16_t* const turns = hash_.turns();
  const auto rows = static_cast<std::size_t>(hash_.rows());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t start = (static_cast<std::size_t>(t * width) + turns[row]) % lanes, word = start / 64, shift = start % 64;
    const std::uint64_t* const of_row = words.data() + row * tiles_per_row;
    tile.left[row] = of_row[word] >> shift | (of_row[(word + 1) % tiles_per_row] << 1) << (63 - shift);
  }
  tile.left[rows] = 0;
}

bool RowSketch::add_up(std::span<const float> x, std::span<const std::uint64_t> words, std::int64_t buckets, float* counters) {
  const auto n = static_cast<std::int64_t>(x.size());
  const std::int64_t rows = rows_of(n), whole = n / lanes, rest = n % lanes;
  hash_.build(rows, buckets);
  std::vector<Tile>& all = tiles();
  const std::uint32_t mark = released_ ? 1 : 0;
  std::uint32_t largest = 0;
  if (rest > 0) std::memcpy(last_row_, x.data() + whole * lanes, static_cast<std::size_t>(rest) * sizeof(float));  // what lies behind is in no index
  for_tiles(rows, [&](std::int64_t t, int thread) {
    Tile& tile = all[static_cast<std::size_t>(thread)];
    load_index(tile, words, t);
    const auto first = static_cast<std::size_t>(t * width);
    simd::masked_rows(x.data(), first, hash_.turns(), tile.left, static_cast<std::size_t>(whole), mark, tile.x);
    if (rest > 0) simd::masked_rows(last_row_, first, hash_.turns() + whole, tile.left + whole, 1, mark, tile.x + whole * width);
    const std::uint32_t here = simd::sum_signed_rows(tile.x, hash_.starts(), hash_.counts(), hash_.entries(), static_cast<std::size_t>(buckets), counters + first, lanes);
#pragma omp critical(thinwire_sketch)
    largest = std::max(largest, here);
  });
  return largest < simd::non_finite_bits;
}

// A bucket's elements of 64 lanes are the words of its rows: seen once and not twice, in a lane, is a counter with one unresolved element. So nothing counts beyond two,
// where the authors' counts of 8 bits overflow at 256. One thread owns a lane: what is peeled may be used at once, and passes are fewer than with counts frozen for each.
template <bool kReleased>
int RowSketch::peel(Tile& tile) const {
  const auto buckets = static_cast<std::size_t>(hash_.buckets());
  std::memset(tile.again, 1, buckets);
  int passes = 0;
  for (bool peeled = true; peeled; passes += peeled ? 1 : 0) {
    peeled = false;
    for (std::size_t b = 0; b < buckets; ++b) {
      if (tile.again[b] == 0) continue;
      tile.again[b] = 0;
      const std::span<const std::uint32_t> entries = hash_.blocks_of(b);
      std::uint64_t once = 0, twice = 0;
      for (const std::uint32_t entry : entries) {
        const std::uint64_t left = tile.left[RowHash::number(entry)];
        twice |= once & left;
        once |= left;
      }
      const std::uint64_t alone = once & ~twice;
      if (alone == 0) continue;
      peeled = true;
      for (std::size_t first = 0; first < entries.size(); first += RowHash::block) {
        unsigned found = 0;  // which of a block, so that no branch asks each of them
        for (std::size_t i = 0; i < RowHash::block; ++i) found |= ((alone & tile.left[RowHash::number(entries[first + i])]) != 0 ? 1u : 0u) << i;
        for (; found != 0; found &= found - 1) peel_row<kReleased>(tile, b, entries[first + static_cast<std::size_t>(std::countr_zero(found))], alone);
      }
    }
  }
  return passes;
}

template <bool kReleased>
void RowSketch::peel_row(Tile& tile, std::size_t bucket, std::uint32_t entry, std::uint64_t alone) const {
  const std::size_t row = RowHash::number(entry);
  const std::uint32_t* const to = hash_.of_row(row);
  const std::uint32_t sign0 = to[0], sign1 = to[1], sign2 = to[2];
  const std::size_t bucket0 = RowHash::number(sign0), bucket1 = RowHash::number(sign1), bucket2 = RowHash::number(sign2);
  float *const y0 = tile.y + bucket0 * width, *const y1 = tile.y + bucket1 * width, *const y2 = tile.y + bucket2 * width;
  const float* const own = tile.y + bucket * width;
  float* const x = tile.x + row * width;
  std::uint64_t lanes_here = alone & tile.left[row];
  tile.left[row] ^= lanes_here;
  tile.again[bucket0] = tile.again[bucket1] = tile.again[bucket2] = 1;
  tile.again[bucket] = 0;  // here these lanes are empty now
  for (; lanes_here != 0; lanes_here &= lanes_here - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(lanes_here));
    float value = with_sign(own[lane], entry);
    if constexpr (kReleased) value = without_mark(value);
    x[lane] = value;
    y0[lane] -= with_sign(value, sign0);
    y1[lane] -= with_sign(value, sign1);
    y2[lane] -= with_sign(value, sign2);
  }
}

template <bool kReleased>
std::int64_t RowSketch::estimate(Tile& tile) const {
  std::int64_t unpeeled = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(hash_.rows()); ++row) {
    const std::uint32_t* const to = hash_.of_row(row);
    unpeeled += std::popcount(tile.left[row]);
    for (std::uint64_t left = tile.left[row]; left != 0; left &= left - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(left));
      float seen[RowHash::hashes];
      for (int j = 0; j < RowHash::hashes; ++j) seen[j] = with_sign(tile.y[RowHash::number(to[j]) * width + lane], to[j]);
      tile.x[row * width + lane] = kReleased ? released_median(seen[0], seen[1], seen[2]) : median(seen[0], seen[1], seen[2]);
    }
  }
  return unpeeled;
}

RowSketch::Recovery RowSketch::recover(const float* counters, std::int64_t buckets, std::span<const std::uint64_t> words, std::span<float> out) {
  const auto n = static_cast<std::int64_t>(out.size());
  const std::int64_t rows = rows_of(n);
  hash_.build(rows, buckets);
  std::vector<Tile>& all = tiles();
  Recovery found;
  for_tiles(rows, [&](std::int64_t t, int thread) {
    Tile& tile = all[static_cast<std::size_t>(thread)];
    for (std::int64_t b = 0; b < buckets; ++b) std::memcpy(tile.y + b * width, counters + b * lanes + t * width, width * sizeof(float));
    load_index(tile, words, t);
    const std::uint32_t arrived = simd::maximum_bits(tile.y, static_cast<std::size_t>(buckets * width));
    std::memset(tile.x, 0, static_cast<std::size_t>(rows * width) * sizeof(float));
    const int passes = released_ ? peel<true>(tile) : peel<false>(tile);
    const std::int64_t unpeeled = released_ ? estimate<true>(tile) : estimate<false>(tile);
    const bool finite = std::max(arrived, simd::maximum_bits(tile.x, static_cast<std::size_t>(rows * width))) < simd::non_finite_bits;
    for (std::int64_t row = 0; row < rows; ++row)
      for_pieces((t * width + hash_.turns()[row]) % lanes, std::min(lanes, n - row * lanes), [&](std::int64_t to, std::int64_t from, std::int64_t count) {
        std::memcpy(out.data() + row * lanes + to, tile.x + row * width + from, static_cast<std::size_t>(count) * sizeof(float));
      });
#pragma omp critical(thinwire_sketch)
    {
      found.unpeeled += unpeeled;
      found.passes = std::max(found.passes, passes);
      found.finite = found.finite && finite;
    }
  });
  return found;
}

}  // namespace thinwire
