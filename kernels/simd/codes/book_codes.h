// SIMD primitives of codes of one byte that name values of a book: the nearest one of x / scale, and back.
// One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thinwire::simd {

/// How to find the nearest of the magnitudes m[0] = 0 < m[1] < ... : the cell of |y| is its exponent and the upper six bits of its mantissa, and holds at most one of the
/// thresholds beyond which the next magnitude is nearer. With t the lower bits of that threshold, or 2^17 - 1 where there is none, and m the magnitudes below,
/// cell = m * 2^17 + (2^17 - 1 - t): adding the lower bits of |y| carries into the number exactly where they are larger than t.
struct MagnitudeCells {
  static constexpr int low_bits = 17;
  std::vector<std::uint32_t> cells;
  std::uint32_t first = 0;  ///< smaller |y| belong to the first cell
  std::uint32_t zero = 0;   ///< code of zero; the code of magnitude m is zero + m, or zero - m for negative values
  std::uint32_t negatives = 0;  ///< there are so many negative values, the largest positive ones have no counterpart
};

/// codes[i] of the value nearest to x[i] / divisor, as rounded to f32; |x[i]| <= divisor. What lies 16 KiB behind x is fetched towards the caches.
void encode_nearest(const float* x, std::size_t n, float divisor, const MagnitudeCells& cells, std::uint8_t* codes);

/// out[i] = book[codes[i]] * factor, `book` of 256 values; `add` adds to out. `stream`: stores that bypass the caches where alignment allows (stream_fence() of
/// uniform_codes.h at the end).
void decode_book(const std::uint8_t* codes, std::size_t n, const float* book, float factor, float* out, bool add, bool stream);

}  // namespace thinwire::simd
