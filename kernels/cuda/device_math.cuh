// What device kernels share. With nvcc these are the hardware's conversions; included after
// tests/emulated_device/cuda_emulation.h the same kernels run on the host, block by block, for tests without a GPU.
#pragma once

#include <cstdint>

#include "core/dtype.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define THINWIRE_UNROLL _Pragma("unroll")
#else
#define THINWIRE_UNROLL
#endif

namespace thinwire::cuda {

#ifdef __CUDACC__
__device__ inline std::uint16_t half_bits(float x) { return __half_as_ushort(__float2half_rn(x)); }
__device__ inline std::uint16_t bfloat16_bits(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
__device__ inline float half_value(std::uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ inline float divide(float a, float b) { return __fdiv_rn(a, b); }  // correctly rounded under any -use_fast_math
__device__ inline float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline std::uint32_t bits_of(float x) { return __float_as_uint(x); }
__device__ inline float float_of(std::uint32_t bits) { return __uint_as_float(bits); }
#else
inline std::uint16_t half_bits(float x) { return to_half(x).bits; }
inline std::uint16_t bfloat16_bits(float x) { return to_bfloat16(x).bits; }
inline float half_value(std::uint16_t bits) { return to_float(Half{bits}); }
inline float divide(float a, float b) { return a / b; }
inline float multiply(float a, float b) { return a * b; }
inline float add(float a, float b) { return a + b; }
inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
#endif

__device__ inline float bfloat16_value(std::uint16_t bits) { return float_of(static_cast<std::uint32_t>(bits) << 16); }

/// Two bytes at any address: payloads are cut for destinations at odd places.
__device__ inline std::uint16_t load_u16(const std::uint8_t* p) { return static_cast<std::uint16_t>(p[0] | p[1] << 8); }
__device__ inline void store_u16(std::uint8_t* p, std::uint16_t v) {
  p[0] = static_cast<std::uint8_t>(v);
  p[1] = static_cast<std::uint8_t>(v >> 8);
}

__device__ inline void store_u32(std::uint8_t* p, std::uint32_t v) {
  store_u16(p, static_cast<std::uint16_t>(v));
  store_u16(p + 2, static_cast<std::uint16_t>(v >> 16));
}
__device__ inline std::uint32_t load_u32(const std::uint8_t* p) { return load_u16(p) | static_cast<std::uint32_t>(load_u16(p + 2)) << 16; }

__device__ inline bool finite_bits(std::uint32_t bits) { return (bits & 0x7f800000u) != 0x7f800000u; }

/// What kernels compute with (f32) from and to what memory holds.
__device__ inline float value_of(float x) { return x; }
__device__ inline float value_of(BFloat16 x) { return bfloat16_value(x.bits); }
__device__ inline void store_value(float* p, float v) { *p = v; }
__device__ inline void store_value(BFloat16* p, float v) { p->bits = bfloat16_bits(v); }

/// Elements of one 16-byte access.
template <typename T>
inline constexpr int pack_size = static_cast<int>(16 / sizeof(T));

/// v = p[0 .. kWidth), where kWidth is 1 or pack_size<T>, and then p lies on 16 bytes. Several packs for a kWidth beyond it.
template <int kWidth, typename T>
__device__ inline void load_pack(const T* p, float (&v)[kWidth]) {
  if constexpr (kWidth == 1) {
    v[0] = value_of(*p);
  } else if constexpr (sizeof(T) == 4) {
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; j += 4) {
      const float4 q = *reinterpret_cast<const float4*>(p + j);
      v[j] = q.x, v[j + 1] = q.y, v[j + 2] = q.z, v[j + 3] = q.w;
    }
  } else {
    const uint4 q = *reinterpret_cast<const uint4*>(p);
    const std::uint32_t words[4] = {q.x, q.y, q.z, q.w};
    THINWIRE_UNROLL
    for (int j = 0; j < 4; ++j) {
      v[2 * j] = float_of(words[j] << 16);
      v[2 * j + 1] = float_of(words[j] & 0xffff0000u);
    }
  }
}
template <int kWidth, typename T>
__device__ inline void store_pack(T* p, const float (&v)[kWidth]) {
  if constexpr (kWidth == 1) {
    store_value(p, v[0]);
  } else if constexpr (sizeof(T) == 4) {
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; j += 4) *reinterpret_cast<float4*>(p + j) = make_float4(v[j], v[j + 1], v[j + 2], v[j + 3]);
  } else {
    uint4 q;
    q.x = bfloat16_bits(v[0]) | static_cast<std::uint32_t>(bfloat16_bits(v[1])) << 16;
    q.y = bfloat16_bits(v[2]) | static_cast<std::uint32_t>(bfloat16_bits(v[3])) << 16;
    q.z = bfloat16_bits(v[4]) | static_cast<std::uint32_t>(bfloat16_bits(v[5])) << 16;
    q.w = bfloat16_bits(v[6]) | static_cast<std::uint32_t>(bfloat16_bits(v[7])) << 16;
    *reinterpret_cast<uint4*>(p) = q;
  }
}

inline std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline bool aligned(const void* p, unsigned bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

}  // namespace thinwire::cuda
