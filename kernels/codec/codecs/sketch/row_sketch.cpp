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

float median(float a, float b, float c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }
// The authors': a == b, and products too small for f32, give c.
float released_median(float a, float b, float c) { return (a - b) * (a - c) < 0 ? a : (b - a) * (b - c) < 0 ? b : c; }

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
  const auto rows = static_cast<std::size_t>(hash_.rows()), buckets = static_cast<std::size_t>(hash_.buckets());
  for (Tile& tile : tiles_) {
    tile.x = tile.values.as<float>(rows * width);
    tile.lanes = {hash_.of_row(0), hash_.starts(), hash_.entries(), rows, buckets, tile.counters.as<float>(buckets * width), tile.unresolved.as<std::uint64_t>(rows + 1),
                  tile.resolved.as<std::uint64_t>(RowHash::hashes * rows), tile.changed.as<std::uint8_t>(buckets)};
  }
  return tiles_;
}

void RowSketch::load_index(const simd::PeelTile& tile, std::span<const std::uint64_t> words, std::int64_t t) const {
  const std::uint16_t* const turns = hash_.turns();
  for (std::size_t row = 0; row < tile.rows; ++row) {
    const std::size_t start = (static_cast<std::size_t>(t * width) + turns[row]) % lanes, word = start / 64, shift = start % 64;
    const std::uint64_t* const of_row = words.data() + row * tiles_per_row;
    tile.left[row] = of_row[word] >> shift | (of_row[(word + 1) % tiles_per_row] << 1) << (63 - shift);
  }
  tile.left[tile.rows] = 0;
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
    load_index(tile.lanes, words, t);
    const auto first = static_cast<std::size_t>(t * width);
    simd::masked_rows(x.data(), first, hash_.turns(), tile.lanes.left, static_cast<std::size_t>(whole), mark, tile.x);
    if (rest > 0) simd::masked_rows(last_row_, first, hash_.turns() + whole, tile.lanes.left + whole, 1, mark, tile.x + whole * width);
    const std::uint32_t here = simd::sum_signed_rows(tile.x, hash_.starts(), hash_.counts(), hash_.entries(), static_cast<std::size_t>(buckets), counters + first, lanes);
#pragma omp critical(thinwire_sketch)
    largest = std::max(largest, here);
  });
  return largest < simd::non_finite_bits;
}

std::int64_t RowSketch::estimate(const simd::PeelTile& tile, std::size_t first, std::size_t whole, float* out, std::uint32_t& largest) {
  std::int64_t unpeeled = 0;
  for (std::size_t row = 0; row < tile.rows; ++row) {
    const std::uint32_t* const to = hash_.of_row(row);
    float* const values = row < whole ? out + row * lanes : last_row_;
    unpeeled += std::popcount(tile.left[row]);
    for (std::uint64_t left = tile.left[row]; left != 0; left &= left - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(left));
      float seen[RowHash::hashes];
      for (int j = 0; j < RowHash::hashes; ++j) seen[j] = with_sign(tile.counters[RowHash::number(to[j]) * width + lane], to[j]);
      const float value = released_ ? released_median(seen[0], seen[1], seen[2]) : median(seen[0], seen[1], seen[2]);
      values[(first + hash_.turns()[row] + lane) % lanes] = value;
      largest = std::max(largest, simd::magnitude_bits(value));
    }
  }
  return unpeeled;
}

RowSketch::Recovery RowSketch::recover(const float* counters, std::int64_t buckets, std::span<const std::uint64_t> words, std::span<float> out) {
  const std::size_t rest = out.size() % lanes, whole = out.size() / lanes;
  const std::int64_t rows = rows_of(static_cast<std::int64_t>(out.size()));
  hash_.build(rows, buckets);
  std::vector<Tile>& all = tiles();
  Recovery found;
  for_tiles(rows, [&](std::int64_t t, int thread) {
    const simd::PeelTile& tile = all[static_cast<std::size_t>(thread)].lanes;
    const auto first = static_cast<std::size_t>(t * width);
    for (std::size_t b = 0; b < tile.buckets; ++b) std::memcpy(tile.counters + b * width, counters + b * lanes + first, width * sizeof(float));
    load_index(tile, words, t);
    std::memset(tile.given, 0, RowHash::hashes * tile.rows * sizeof *tile.given);
    std::uint32_t largest = simd::maximum_bits(tile.counters, tile.buckets * width);
    const int passes = simd::peel(tile, released_);
    largest = std::max(largest, simd::peeled_rows(tile, released_, 0, whole, hash_.turns(), first, out.data()));
    if (rest > 0) largest = std::max(largest, simd::peeled_rows(tile, released_, whole, 1, hash_.turns(), first, last_row_));
    const std::int64_t unpeeled = estimate(tile, first, whole, out.data(), largest);
#pragma omp critical(thinwire_sketch)
    {
      found.unpeeled += unpeeled;
      found.passes = std::max(found.passes, passes);
      found.finite = found.finite && largest < simd::non_finite_bits;
    }
  });
  if (rest > 0) std::memcpy(out.data() + whole * lanes, last_row_, rest * sizeof(float));
  return found;
}

}  // namespace thinwire
