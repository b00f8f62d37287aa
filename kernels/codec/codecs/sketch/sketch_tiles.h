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
/// tile[r][i] = x[r][(first + turns[r] + i) % 1024], its pattern OR-ed with `mark`, where bit i of bits[r] is set, else 0; x [rows][1024], i < 64.
void masked_rows(const float* x, std::size_t first, const std::uint16_t* turns, const std::uint64_t* bits, std::size_t rows, std::uint32_t mark, float* tile);

/// out[b * stride + i] = the sum of +-tile[row][i] over the counts[b] entries from starts[b] on; b < buckets, i < 64. Returns the largest magnitude bits of `out`
/// (kernels/simd/magnitude.h).
std::uint32_t sum_signed_rows(const float* tile, const std::uint32_t* starts, const std::uint32_t* counts, const std::uint32_t* entries, std::size_t buckets, float* out,
                              std::size_t stride);

}  // namespace thinwire::simd
