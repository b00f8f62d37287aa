// SIMD primitives of signs: a bit per value, and sums of magnitudes that have equal bits on every target.
// One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// Bit i, lowest first, is x[i] < 0, so that both zeros are positive. Writes ceil(n / 8) bytes, the last filled with zeros. What lies 16 KiB behind x is fetched towards
/// the caches: callers go on there.
void pack_signs(const float* x, std::size_t n, std::uint8_t* bits);

/// out[i] = bit i ? -scale : scale; `add` adds to out. `stream`: stores that bypass the caches where alignment allows (stream_fence() of codes/uniform_codes.h at the end).
void unpack_signs(const std::uint8_t* bits, std::size_t n, float scale, float* out, bool add, bool stream);

/// Sum of |x|, or of x^2, in f64: sixteen sums s[j] of x[j], x[16 + j], ..., then s[j] + s[j + 8] and so on by halves. Finite if and only if all x are.
double sum_of_magnitudes(const float* x, std::size_t n);
double sum_of_squares(const float* x, std::size_t n);

/// pack_signs and a sum in one pass over x.
double pack_signs_and_sum_magnitudes(const float* x, std::size_t n, std::uint8_t* bits);
double pack_signs_and_sum_squares(const float* x, std::size_t n, std::uint8_t* bits);

}  // namespace thinwire::simd
