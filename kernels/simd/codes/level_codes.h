// SIMD primitives of levels that are drawn without bias: integers on both sides of a scaled magnitude, with the value's sign (QSGD).
// One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// With y = |x[i]| / divisor * levels, each operation rounded to f32, and a draw u = (draws[i] >> 8) / 2^24: codes[i] = +-min(floor(y) + (u < y - floor(y)), levels) as a signed
/// byte, with the sign of x[i]. divisors[b] > 0 belongs to block b of x, the last one may be shorter; levels <= 127. What lies 16 KiB behind x is fetched towards the caches.
void encode_levels(const float* x, std::size_t n, std::size_t block, const float* divisors, float levels, const std::uint32_t* draws, std::uint8_t* codes);

}  // namespace thinwire::simd
