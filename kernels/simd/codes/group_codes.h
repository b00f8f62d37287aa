// SIMD primitives of integers of 1 to 8 bits with a step, and perhaps an offset, per block of neighbours.
// One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// Least and largest value of each block; the last block may be shorter. Zeros are positive. False where x holds NaN or infinity.
bool block_ranges(const float* x, std::size_t n, std::size_t block, float* least, float* largest);

/// Places in each block, of at most 65536, of its first element that equals `least` and of the first that equals `largest`, of which there are some.
void block_places(const float* x, std::size_t n, std::size_t block, const float* least, const float* largest, std::uint16_t* at_least, std::uint16_t* at_largest);

/// factors[b] = 1 / steps[b]; 0 of a step of 0; of steps below the normal numbers, whose inverse would be infinite, the largest number with their sign.
void inverse_steps(const float* steps, std::size_t n, float* factors);

/// How codes lie in bytes: one each; or two of 4 bits, the first in the high or in the low half, a missing last one zero.
enum class CodePacking { bytes, high_first, low_first };

/// Codes are the low bits (`mask`) of q, with y = (x[i] - offset) * factor of its block, clamped to [low, high]: q is y rounded half to even, or, with `draws`, rounded up
/// where draws[i] / 2^16 < y - floor(y), else down. `block` is even, or at least n. What lies 16 KiB behind x is fetched towards the caches: callers go on there.
void encode_group_codes(const float* x, std::size_t n, std::size_t block, const float* factors, const float* offsets, float low, float high, std::uint8_t mask,
                        const std::uint16_t* draws, CodePacking packing, std::uint8_t* codes);

/// out[i] = q * step + offset of its block, q the code as a two's complement of `bits` bits; `add` adds to out. `stream`: stores that bypass the caches where alignment
/// allows (stream_fence() of uniform_codes.h at the end).
void decode_group_codes(const std::uint8_t* codes, std::size_t n, std::size_t block, const float* steps, const float* offsets, int bits, CodePacking packing, float* out, bool add, bool stream);

}  // namespace thinwire::simd
