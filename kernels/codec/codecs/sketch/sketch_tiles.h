// SIMD primitives of sketches whose rows share a hash: sums of signed rows, for a tile of 64 lanes of every row, which fits into a cache.
// Sums are taken in the order of their lists on every target, so results have equal bits everywhere. One thread each; callers split the work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

inline constexpr std::size_t sketch_tile_lanes = 64;
/// Of an entry that says where a row goes or comes from: the number of the other row, and its sign in the top bit (set: minus).
inline constexpr std::uint32_t sketch_sign = 0x80000000u;

inline constexpr std::size_t sketch_lanes = 1024;
inline constexpr std::size_t sketch_block = 8;  ///< entries
/// tile[r][i] = x[r][(first + turns[r] + i) % 1024], its pattern OR-ed with `mark`, where bit i of bits[r] is set, else 0; x [rows][1024], i < 64.
void masked_rows(const float* x, std::size_t first, const std::uint16_t* turns, const std::uint64_t* bits, std::size_t rows, std::uint32_t mark, float* tile);

/// out[b * stride + i] = the sum of +-tile[row][i] over the counts[b] entries from starts[b] on; b < buckets, i < 64. Returns the largest magnitude bits of `out`
/// (kernels/simd/magnitude.h).
std::uint32_t sum_signed_rows(const float* tile, const std::uint32_t* starts, const std::uint32_t* counts, const std::uint32_t* entries, std::size_t buckets, float* out,
                              std::size_t stride);

/// A tile while it is peeled, with the lists of RowHash.
struct PeelTile {
  const std::uint32_t* of_rows = nullptr;  ///< [rows][3]: buckets of a row, with signs
  const std::uint32_t* starts = nullptr;   ///< [buckets + 1]: where the rows of a bucket begin in `entries`; whole blocks, filled up with row `rows`
  const std::uint32_t* entries = nullptr;
  std::size_t rows = 0, buckets = 0;
  /// [buckets][64]. A counter that has given an element its value keeps it: nobody else needs that counter any more.
  float* counters = nullptr;
  std::uint64_t* left = nullptr;   ///< [rows + 1]: unresolved elements, a bit per lane; none in the row behind the last
  std::uint64_t* given = nullptr;  ///< [rows][3]: elements that have their value, by which of their counters gave it
  std::uint8_t* again = nullptr;   ///< [buckets]: an element of it was resolved elsewhere
};
/// Peels until no counter has just one unresolved element; `given` is zero before. Returns passes over the buckets. `released`: values lose their last mantissa bit.
int peel(const PeelTile& tile, bool released);
/// out[r][(first + turns[r] + i) % 1024] = the value of lane i < 64 of row first_row + r that peeling has given, else 0; out [rows][1024]. `turns` are those of all rows.
/// Returns the largest magnitude bits.
std::uint32_t peeled_rows(const PeelTile& tile, bool released, std::size_t first_row, std::size_t rows, const std::uint16_t* turns, std::size_t first, float* out);

}  // namespace thinwire::simd
