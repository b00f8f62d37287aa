// The list of kept values of a sparse message on a device.
#pragma once

#include "kernels/codec/device_kernels.h"
#include "kernels/cuda/device_math.cuh"

namespace thinwire::cuda {

/// A list of f32 or f16 at any byte.
struct ValueList {
  std::uint8_t* bytes;
  bool half;
  /// f16 or f32 as stored; false in `fine` where it is NaN or infinity.
  __device__ float load(std::int64_t i, bool& fine) const {
    if (half) {
      const std::uint16_t code = load_u16(bytes + 2 * i);
      fine = (code & 0x7c00) != 0x7c00;
      return half_value(code);
    }
    const std::uint32_t code = load_u32(bytes + 4 * i);
    fine = finite_bits(code);
    return float_of(code);
  }
  /// Reports NaN, infinity, and what f16 cannot hold.
  __device__ void store(std::int64_t i, float value, std::uint32_t* status) const {
    if (!finite_bits(bits_of(value))) atomicOr(status, device_status_non_finite);
    if (half) {
      const std::uint16_t code = half_bits(value);
      if ((code & 0x7c00) == 0x7c00 && finite_bits(bits_of(value))) atomicOr(status, device_status_beyond_range);
      store_u16(bytes + 2 * i, code);
    } else {
      store_u32(bytes + 4 * i, bits_of(value));
    }
  }
};

}  // namespace thinwire::cuda
