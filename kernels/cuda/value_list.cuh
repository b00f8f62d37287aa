// The list of kept values of a sparse message on a device.
#pragma once

#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/device_math.cuh"

namespace thinwire::cuda {

/// A list of f32 or f16 at any byte; `whole`: its elements lie where such elements may.
struct ValueList {
  std::uint8_t* bytes;
  bool half, whole;
  /// f16 or f32 as stored; false in `fine` where it is NaN or infinity.
  __device__ float load(std::int64_t i, bool& fine) const {
    if (half) {
      const std::uint16_t code = whole ? reinterpret_cast<const std::uint16_t*>(bytes)[i] : load_u16(bytes + 2 * i);
      fine = (code & 0x7c00) != 0x7c00;
      return half_value(code);
    }
    const std::uint32_t code = whole ? reinterpret_cast<const std::uint32_t*>(bytes)[i] : load_u32(bytes + 4 * i);
    fine = finite_bits(code);
    return float_of(code);
  }
  /// Reports NaN, infinity, and what f16 cannot hold.
  __device__ void store(std::int64_t i, float value, std::uint32_t* status) const {
    const std::uint32_t bits = bits_of(value);
    if (!finite_bits(bits)) atomicOr(status, device_status_non_finite);
    if (half) {
      const std::uint16_t code = half_bits(value);
      if ((code & 0x7c00) == 0x7c00 && finite_bits(bits)) atomicOr(status, device_status_beyond_range);
      if (whole) reinterpret_cast<std::uint16_t*>(bytes)[i] = code;
      else store_u16(bytes + 2 * i, code);
    } else if (whole) {
      reinterpret_cast<std::uint32_t*>(bytes)[i] = bits;
    } else {
      store_u32(bytes + 4 * i, bits);
    }
  }
};

inline ValueList value_list(const void* bytes, bool half) {
  return {static_cast<std::uint8_t*>(const_cast<void*>(bytes)), half, aligned(bytes, half ? 2 : 4)};
}

}  // namespace thinwire::cuda
