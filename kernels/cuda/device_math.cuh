// What device kernels share. With nvcc these are the hardware's conversions; included after
// tests/support/cuda_emulation.h the same kernels run on the host, block by block, for tests without a GPU.
#pragma once

#include <cstdint>

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

inline std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline bool aligned(const void* p, unsigned bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

}  // namespace thinwire::cuda
