// Scalar conversion between f32 and binary16 / bfloat16: round to nearest, ties to even; NaN stays NaN (made
// quiet, upper payload bits kept, as F16C and AVX512-BF16 do); subnormals are exact. Arrays: kernels/convert.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/dtype.h"

namespace thinwire {

constexpr float to_float(Half h) {
  const std::uint32_t sign = std::uint32_t{h.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (h.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = h.bits & 0x3ffu;
  if (exponent == 0x1f) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | mantissa << 13);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

constexpr Half to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [sign](std::uint32_t m) { return Half{static_cast<std::uint16_t>(sign | m)}; };
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {                            // below 2^-14: subnormal, in units of 2^-24
    if (magnitude < 0x33000000u) return with_sign(0);       // below 2^-25
    const std::uint32_t shift = 126 - (magnitude >> 23);    // 14 .. 24
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t quotient = significand >> shift;
    const std::uint32_t rest = significand & ((1u << shift) - 1);
    const std::uint32_t half = 1u << (shift - 1);
    return with_sign(quotient + (rest > half || (rest == half && (quotient & 1u)) ? 1u : 0u));
  }
  // Normal: rebias, then add half a unit (ties to even); a carry into the exponent is what rounding means.
  const std::uint32_t rebiased = magnitude - 0x38000000u;
  return with_sign((rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13);
}

constexpr float to_float(BFloat16 b) { return std::bit_cast<float>(std::uint32_t{b.bits} << 16); }

constexpr BFloat16 to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

/// Nearest binary16 value of x, as f32.
constexpr float round_to_half(float x) { return to_float(to_half(x)); }

/// A step of codes that travels as f16. In f16's subnormal range (below 2^-14) the next number away from zero, not the nearest: a shorter step would cut off the ends of what
/// is coded, and one of 0 all of it. Elsewhere the step as it is.
inline float step_for_half(float step) {
  const float size = step < 0 ? -step : step;
  if (!(size < 0x1p-14f)) return step;
  const float units = std::ceil(size * 0x1p24f) * 0x1p-24f;
  return step < 0 ? -units : units;
}

}  // namespace thinwire
