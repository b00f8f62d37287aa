// Kernels of `cast` on a device: 16-byte accesses on the f32 side, four in flight per thread.
#pragma once

#include "kernels/codec/codecs/dense/cast_entries.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/device_math.cuh"

namespace thinwire::cuda {

constexpr int cast_threads = 256;
constexpr int cast_unroll = 4;

template <bool kBFloat16>
__device__ inline std::uint16_t cast_code(float x, std::uint32_t& status) {
  const std::uint16_t code = kBFloat16 ? bfloat16_bits(x) : half_bits(x);
  const std::uint16_t exponent = kBFloat16 ? 0x7f80 : 0x7c00;
  if ((code & exponent) == exponent)
    status |= (bits_of(x) & 0x7f800000u) == 0x7f800000u ? device_status_non_finite : device_status_beyond_range;
  return code;
}
template <bool kBFloat16>
__device__ inline float cast_value(std::uint16_t code, std::uint32_t& status) {
  const std::uint16_t exponent = kBFloat16 ? 0x7f80 : 0x7c00;
  if ((code & exponent) == exponent) status |= device_status_damaged;
  return kBFloat16 ? bfloat16_value(code) : half_value(code);
}

/// Four values per access: x 16-byte, payload 8-byte aligned. A block covers cast_unroll * blockDim.x accesses.
template <bool kBFloat16>
__global__ void cast_encode_vectors(const float4* __restrict__ x, std::int64_t vectors, ushort4* __restrict__ payload, std::uint32_t* status) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x * cast_unroll + threadIdx.x;
  float4 v[cast_unroll] = {};
  THINWIRE_UNROLL
  for (int u = 0; u < cast_unroll; ++u)
    if (const std::int64_t i = first + u * static_cast<std::int64_t>(blockDim.x); i < vectors) v[u] = x[i];
  std::uint32_t found = 0;
  THINWIRE_UNROLL
  for (int u = 0; u < cast_unroll; ++u)
    if (const std::int64_t i = first + u * static_cast<std::int64_t>(blockDim.x); i < vectors) {
      ushort4 code;
      code.x = cast_code<kBFloat16>(v[u].x, found);
      code.y = cast_code<kBFloat16>(v[u].y, found);
      code.z = cast_code<kBFloat16>(v[u].z, found);
      code.w = cast_code<kBFloat16>(v[u].w, found);
      payload[i] = code;
    }
  if (found != 0) atomicOr(status, found);
}

/// Elements [first, count) one by one, at any alignment: tails and odd slices.
template <bool kBFloat16>
__global__ void cast_encode_elements(const float* __restrict__ x, std::int64_t first, std::int64_t count, std::uint8_t* __restrict__ payload,
                                     std::uint32_t* status) {
  const std::int64_t i = first + static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  std::uint32_t found = 0;
  store_u16(payload + 2 * i, cast_code<kBFloat16>(x[i], found));
  if (found != 0) atomicOr(status, found);
}

template <bool kBFloat16, bool kAdd>
__global__ void cast_decode_vectors(const ushort4* __restrict__ payload, std::int64_t vectors, float4* __restrict__ out, std::uint32_t* status) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x * cast_unroll + threadIdx.x;
  ushort4 code[cast_unroll] = {};
  float4 before[cast_unroll] = {};
  THINWIRE_UNROLL
  for (int u = 0; u < cast_unroll; ++u)
    if (const std::int64_t i = first + u * static_cast<std::int64_t>(blockDim.x); i < vectors) {
      code[u] = payload[i];
      if (kAdd) before[u] = out[i];
    }
  std::uint32_t found = 0;
  THINWIRE_UNROLL
  for (int u = 0; u < cast_unroll; ++u)
    if (const std::int64_t i = first + u * static_cast<std::int64_t>(blockDim.x); i < vectors) {
      float4 v;
      v.x = cast_value<kBFloat16>(code[u].x, found);
      v.y = cast_value<kBFloat16>(code[u].y, found);
      v.z = cast_value<kBFloat16>(code[u].z, found);
      v.w = cast_value<kBFloat16>(code[u].w, found);
      if (kAdd) {
        v.x = add(before[u].x, v.x);
        v.y = add(before[u].y, v.y);
        v.z = add(before[u].z, v.z);
        v.w = add(before[u].w, v.w);
      }
      out[i] = v;
    }
  if (found != 0) atomicOr(status, found);
}

template <bool kBFloat16, bool kAdd>
__global__ void cast_decode_elements(const std::uint8_t* __restrict__ payload, std::int64_t first, std::int64_t count, float* __restrict__ out,
                                     std::uint32_t* status) {
  const std::int64_t i = first + static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  std::uint32_t found = 0;
  const float value = cast_value<kBFloat16>(load_u16(payload + 2 * i), found);
  out[i] = kAdd ? add(out[i], value) : value;
  if (found != 0) atomicOr(status, found);
}

/// Elements that the vector kernels may take: a multiple of 4, or 0 when an address does not fit.
inline std::int64_t cast_vectors(const void* values, const void* payload, std::int64_t count) {
  return aligned(values, 16) && aligned(payload, 8) ? count / 4 : 0;
}

}  // namespace thinwire::cuda
