// SIMD primitives of uniform quantisation with a step per column: codes of `bits` bits, several to a byte.
// One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// One row of `columns` values, seen as `chunks` consecutive chunks of c = ceil(columns / chunks), becomes c
/// bytes; byte i holds the codes of x[i], x[c + i], x[2c + i], ..., the first in the highest bits. With
/// half = 2^(bits-1):  code = clamp(round_half_even(x / divisor * half), -half, half - 1) + half.
/// Columns beyond the last count as zero: code half. chunks is 1, or 8 / bits; needs finite x, divisor > 0.
/// `next` is a row that will be read soon (it may be x): chunks read in turn are no stream that hardware
/// recognises.
/// `inverse` = half / divisor, for speed: codes are those of the formula, division included.
void quantize_row(const float* x, const float* divisor, const float* inverse, std::size_t columns,
                  std::size_t chunks, int bits, const float* next, std::uint8_t* out);

/// The inverse: out[c] = (code - half) * step[c]; `add` adds to out instead. `stream`: stores that bypass the
/// caches where alignment allows (call stream_fence() at the end).
void dequantize_row(const std::uint8_t* in, const float* step, std::size_t columns, std::size_t chunks,
                    int bits, float* out, bool add, bool stream);
void stream_fence();

}  // namespace thinwire::simd
