// SIMD primitives over the magnitude |x| of f32 values, compared as integers: for finite values the order of
// the bits without the sign is the order of |x|, and NaN and infinity are the patterns from 0x7f800000 on.
// One thread each; callers split the work (kernels/threads.h). Highway, with run-time dispatch.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// The bits of |x|; at least `non_finite_bits` for NaN and infinity.
inline std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
}
inline constexpr std::uint32_t non_finite_bits = 0x7f800000u;

/// Elements that the output arrays of collect_at_least must have beyond what it returns.
inline constexpr std::size_t collect_slack = 64;

/// Appends (index, value) of every x[i] with magnitude_bits(x[i]) >= lower, in ascending order of i, for
/// n <= 65536. Returns how many. `maximum` is raised to the largest magnitude bits seen.
std::size_t collect_at_least(const float* x, std::size_t n, std::uint32_t lower, std::uint16_t* index,
                             float* value, std::uint32_t& maximum);

/// The same of rows x columns values, rows `stride` elements apart, with index row * width + column, at most 65535. What lies `columns` further in each row is fetched
/// towards the caches: callers go on there.
std::size_t collect_tile(const float* x, std::size_t stride, std::size_t rows, std::size_t columns, std::size_t width, std::uint32_t lower, std::uint16_t* index, float* value,
                         std::uint32_t& maximum);

/// The same on a list in place: keeps the entries of magnitude `lower` and above. Returns how many.
std::size_t keep_at_least(std::uint16_t* index, float* value, std::size_t n, std::uint32_t lower);

/// Writes the magnitude bits of the n values that lie in [lower, upper] to `out`, in order, which must have
/// room for n + collect_slack. Returns how many.
std::size_t magnitudes_between(const float* value, std::size_t n, std::uint32_t lower, std::uint32_t upper,
                               std::uint32_t* out);

/// A cut c in [lower, upper], where at least `rank` of the n values have a magnitude of `lower` and above and none is above `upper`: just `rank` values have one
/// of c and above, or c is the magnitude of the one of that rank, which others share.
std::uint32_t cut_of_rank(const float* value, std::size_t n, std::size_t rank, std::uint32_t lower, std::uint32_t upper);

/// maximum[c] = max(maximum[c], magnitude bits of x[r, c]) for x [rows, columns], rows `stride` elements
/// apart.
void column_maximum(const float* x, std::size_t rows, std::size_t columns, std::size_t stride,
                    std::uint32_t* maximum);

/// Largest magnitude bits of n values; 0 for none.
std::uint32_t maximum_bits(const float* x, std::size_t n);

/// Copies n values with stores that bypass the caches: for outputs larger than those.
void stream_copy(float* to, const float* from, std::size_t n);

}  // namespace thinwire::simd
