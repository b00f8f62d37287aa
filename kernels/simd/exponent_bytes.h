// SIMD primitives of floats taken apart into bytes: exponent; sign and upper mantissa; lower half. No arithmetic on the values: every bit pattern comes back.
// One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thinwire::simd {

/// Of n numbers in bf16, or in f32 as bits: exponents[i]; rest[i], the sign above the upper 7 bits of the mantissa; of f32 low[i], the lower half, at any address.
/// The result has the bits of all low[i].
void take_apart(const std::uint16_t* x, std::size_t n, std::uint8_t* exponents, std::uint8_t* rest);
std::uint16_t take_apart(const float* x, std::size_t n, std::uint8_t* exponents, std::uint8_t* rest, std::byte* low);

/// The inverse; `low` may be null for zeros.
void put_together(const std::uint8_t* exponents, const std::uint8_t* rest, std::size_t n, std::uint16_t* out);
void put_together(const std::uint8_t* exponents, const std::uint8_t* rest, const std::byte* low, std::size_t n, float* out);

/// Largest of n bytes; 0 for none.
std::uint8_t largest_byte(const std::uint8_t* x, std::size_t n);
/// How many of n bytes are `value`.
std::size_t count_bytes(const std::uint8_t* x, std::size_t n, std::uint8_t value);

/// Codes of three bits, min(top - e, 7), and 7 for e > top, as three planes of bits: bit i of plane p is bit p of the code of element i, lowest first. n is a multiple of
/// 64; a plane has n / 8 bytes.
void window_codes(const std::uint8_t* exponents, std::size_t n, std::uint8_t top, std::uint64_t* planes);

/// exponents[i] = top - code, modulo 256. One word behind the planes must be readable.
void window_exponents(const std::uint64_t* planes, std::size_t n, std::uint8_t top, std::uint8_t* exponents);

}  // namespace thinwire::simd
