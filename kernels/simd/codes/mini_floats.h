// SIMD primitives of floats of 4 to 8 bits with a factor per block of neighbours (OCP MX, NVFP4, fp8).
// One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// Sign, exponent, mantissa; one of e2m1, e2m3, e3m2, e4m3 and e5m2. Codes are sign << (bits - 1) | magnitude; magnitudes count upwards from zero, subnormals first.
struct MiniFloat {
  int bits = 8, mantissa = 3;
  int min_exponent = -6;  ///< of the smallest normal number: 2^-6
  int max_exponent = 8;   ///< of the largest
  float largest = 448;
};

/// Blocks begin at x; the last may be shorter. `block` is a multiple of 16, or at least n.
/// maxima[b] = largest magnitude of block b as bits of f32 (NaN and infinity: from 0x7f800000 on). Returns the largest of all.
std::uint32_t block_maxima(const float* x, std::size_t n, std::size_t block, std::uint32_t* maxima);

/// codes[i] = code of x[i] * factor of its block, clamped to +-largest, rounded half to even; the sign of zero stays. One byte each, but for 4 bits: two
/// codes a byte, the first in the low half, a missing last one zero. Finite x and products. What lies 16 KiB behind x is fetched towards the caches: callers go on there.
void encode_mini_floats(const float* x, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, std::uint8_t* codes);

/// The inverse of that packing: out[i] = value of code i * factor of its block; `add` adds to out instead. `stream`: stores that bypass the caches where
/// alignment allows (stream_fence() of uniform_codes.h at the end). Blocks that are no multiples of 16 are one alone. Codes beyond the largest number are read as if they went on
/// counting; callers refuse them (mini_codes_fit).
void decode_mini_floats(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* factors, const MiniFloat& format, float* out, bool add, bool stream);

/// Whether no magnitude is above `largest` (the code of the largest number), of n codes of a byte each.
bool mini_codes_fit(const std::uint8_t* codes, std::size_t n, int bits, std::uint8_t largest);

}  // namespace thinwire::simd
