// Small floats on a device (kernels/simd/codes/mini_floats.h says what they are), one at a time, and as a format of block_kernels.cuh to which codecs add their scales.
#pragma once

#include "kernels/codec/codecs/block/block_kernels.cuh"
#include "kernels/simd/codes/mini_floats.h"

namespace thinwire::cuda {

/// The code of y, rounded half to even and clamped to the largest number; the sign of zero stays.
__device__ inline std::uint32_t mini_code_of(float y, const simd::MiniFloat& f) {
  const float size = fminf(float_of(bits_of(y) & 0x7fffffffu), f.largest);
  const float smallest_normal = float_of(static_cast<std::uint32_t>(127 + f.min_exponent) << 23);
  const std::uint32_t exponent = bits_of(fmaxf(size, smallest_normal)) & 0x7f800000u;
  // Adding 2^(e + 23 - mantissa), e the exponent, rounds half to even behind `mantissa` bits and leaves the steps of 2^(e - mantissa) in the lowest bits of the sum. What
  // the exponent is above the smallest one's counts on from there, for subnormal numbers nothing.
  const std::uint32_t sum = bits_of(add(size, float_of(exponent + (static_cast<std::uint32_t>(23 - f.mantissa) << 23))));
  const std::uint32_t steps = sum & 0x7fffffu, above = (exponent >> 23) - static_cast<std::uint32_t>(127 + f.min_exponent);
  return (steps + (above << f.mantissa)) | ((bits_of(y) >> (32 - f.bits)) & (1u << (f.bits - 1)));
}

__device__ inline float mini_value_of(std::uint32_t code, const simd::MiniFloat& f) {
  const std::uint32_t sign_bit = 1u << (f.bits - 1), size = code & (sign_bit - 1);
  const float normal = float_of((size << (23 - f.mantissa)) + (static_cast<std::uint32_t>(126 + f.min_exponent) << 23));
  const float subnormal = multiply(static_cast<float>(size), float_of(static_cast<std::uint32_t>(127 + f.min_exponent - f.mantissa) << 23));
  return float_of(bits_of((size >> f.mantissa) == 0 ? subnormal : normal) | ((code & sign_bit) << (32 - f.bits)));
}

/// kBits: 8 or 4, first code in the low half of a byte, or 0: 6, a stream with the first code in the highest bits.
template <int kBits>
struct MiniFormat {
  using Scale = float;  ///< what values are multiplied with before they are coded, or values of codes
  static constexpr int bits = kBits;

  simd::MiniFloat element;
  std::uint32_t largest_code;  ///< patterns beyond it are never written

  __device__ bool low_first() const { return true; }
  __device__ void codes_of(const float (&v)[eight], float factor, std::int64_t, std::uint32_t (&codes)[eight]) const {
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) codes[j] = mini_code_of(multiply(v[j], factor), element);
  }
  __device__ bool values_of(const std::uint32_t (&codes)[eight], float factor, float (&v)[eight]) const {
    bool good = true;
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) {
      good = good && (codes[j] & ((1u << (element.bits - 1)) - 1)) <= largest_code;
      v[j] = multiply(mini_value_of(codes[j], element), factor);
    }
    return good;
  }
};

}  // namespace thinwire::cuda
