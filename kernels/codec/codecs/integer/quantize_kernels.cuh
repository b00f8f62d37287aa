// Codes of `quantize` on a device in chunk packing (the maths stands in kernels/codec/codecs/integer/quantize.cpp). Bound: encode reads 4 bytes per
// element here and 4 for the scales (quantize_scale_kernels.cuh) and writes bits / 8, decode reads bits / 8 and writes 4 (adding reads 4 more).
// kWidth = 4 moves 16 bytes of f32 per access and needs aligned rows and chunks; kWidth = 1 takes any shape.
#pragma once

#include "kernels/codec/codecs/integer/quantize_entries.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/device_math.cuh"

namespace thinwire::cuda {

constexpr int quantize_threads = 256;
constexpr int quantize_unroll = 4;  // rows per thread: independent loads in flight, one load of scales

template <int kWidth>
struct Values {
  float v[kWidth];
};
template <int kWidth>
__device__ inline Values<kWidth> load_values(const float* p) {
  Values<kWidth> r;
  if constexpr (kWidth == 4) {
    const float4 q = *reinterpret_cast<const float4*>(p);
    r.v[0] = q.x, r.v[1] = q.y, r.v[2] = q.z, r.v[3] = q.w;
  } else {
    r.v[0] = *p;
  }
  return r;
}
template <int kWidth>
__device__ inline void store_values(float* p, const Values<kWidth>& values) {
  if constexpr (kWidth == 4) *reinterpret_cast<float4*>(p) = make_float4(values.v[0], values.v[1], values.v[2], values.v[3]);
  else *p = values.v[0];
}

/// The code of x; `half` = 2^(bits - 1). The released form rounds x and the quotient to f16.
__device__ inline std::uint32_t quantize_code(float x, float divisor, float half, bool half_arithmetic) {
  const float quotient = half_arithmetic ? half_value(half_bits(divide(half_value(half_bits(x)), divisor))) : divide(x, divisor);
  const float y = fminf(fmaxf(multiply(quotient, half), -half), half - 1);
  // Adding 1.5 * 2^23 rounds to an integer, half to even, and leaves it in the low bits of the sum.
  const auto middle = static_cast<std::uint32_t>(half);
  return (bits_of(add(y, 0x1.8p23f)) + middle) & (2 * middle - 1);
}
/// What (code - middle) decodes to: the product is rounded to f16 in the released form, whose quotient is exact.
__device__ inline float quantize_value(std::uint32_t code, int middle, float step, bool half_arithmetic) {
  const float value = multiply(static_cast<float>(static_cast<int>(code) - middle), step);
  return half_arithmetic ? half_value(half_bits(value)) : value;
}
/// scale / middle, exactly; a scale that is negative, infinite or NaN is reported.
__device__ inline float quantize_step(std::uint16_t scale, int middle, std::uint32_t* status) {
  if (scale >= 0x7c00) atomicOr(status, device_status_damaged);
  return multiply(half_value(scale), 1.0f / static_cast<float>(middle));
}

/// Bytes i .. i + kWidth - 1 of quantize_unroll rows per thread; `width` = bytes per row = columns of a chunk.
template <int kBits, int kWidth>
__global__ void quantize_encode_codes(const float* __restrict__ x, std::int64_t rows, std::int64_t columns, std::int64_t width,
                                      std::int64_t column_tiles, const float* __restrict__ divisor, bool half_arithmetic, std::uint8_t* __restrict__ codes) {
  constexpr int chunks = 8 / kBits;
  const std::int64_t i = (blockIdx.x % column_tiles * blockDim.x + threadIdx.x) * kWidth;
  const std::int64_t first = (blockIdx.x / column_tiles * quantize_unroll * blockDim.y) + threadIdx.y;
  if (i >= width) return;
  std::uint32_t packed[quantize_unroll][kWidth] = {};
  THINWIRE_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t c = chunk * width + i;
    if (c >= columns) {  // the last chunk may be short: its missing columns have the code of zero
      THINWIRE_UNROLL
      for (int k = 0; k < quantize_unroll; ++k)
        THINWIRE_UNROLL
        for (int j = 0; j < kWidth; ++j) packed[k][j] = packed[k][j] << kBits | 1u << (kBits - 1);
      continue;
    }
    const Values<kWidth> by = load_values<kWidth>(divisor + c);
    Values<kWidth> values[quantize_unroll] = {};
    THINWIRE_UNROLL
    for (int k = 0; k < quantize_unroll; ++k)
      if (const std::int64_t r = first + k * static_cast<std::int64_t>(blockDim.y); r < rows) values[k] = load_values<kWidth>(x + r * columns + c);
    THINWIRE_UNROLL
    for (int k = 0; k < quantize_unroll; ++k)
      THINWIRE_UNROLL
      for (int j = 0; j < kWidth; ++j) packed[k][j] = packed[k][j] << kBits | quantize_code(values[k].v[j], by.v[j], 1 << (kBits - 1), half_arithmetic);
  }
  THINWIRE_UNROLL
  for (int k = 0; k < quantize_unroll; ++k) {
    const std::int64_t r = first + k * static_cast<std::int64_t>(blockDim.y);
    if (r >= rows) continue;
    if constexpr (kWidth == 4)
      *reinterpret_cast<std::uint32_t*>(codes + r * width + i) = packed[k][0] | packed[k][1] << 8 | packed[k][2] << 16 | packed[k][3] << 24;
    else
      codes[r * width + i] = static_cast<std::uint8_t>(packed[k][0]);
  }
}

template <int kBits, int kWidth, bool kAdd>
__global__ void quantize_decode_codes(const std::uint8_t* __restrict__ payload, std::int64_t rows, std::int64_t columns, std::int64_t width,
                                      std::int64_t column_tiles, bool half_arithmetic, float* __restrict__ out, std::uint32_t* status) {
  constexpr int chunks = 8 / kBits;
  constexpr int middle = 1 << (kBits - 1);
  const std::int64_t i = (blockIdx.x % column_tiles * blockDim.x + threadIdx.x) * kWidth;
  const std::int64_t first = (blockIdx.x / column_tiles * quantize_unroll * blockDim.y) + threadIdx.y;
  if (i >= width) return;
  const std::uint8_t* codes = payload + 2 * columns;
  std::uint32_t packed[quantize_unroll] = {};
  THINWIRE_UNROLL
  for (int k = 0; k < quantize_unroll; ++k)
    if (const std::int64_t r = first + k * static_cast<std::int64_t>(blockDim.y); r < rows) {
      if constexpr (kWidth == 4) packed[k] = *reinterpret_cast<const std::uint32_t*>(codes + r * width + i);
      else packed[k] = codes[r * width + i];
    }
  THINWIRE_UNROLL
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t c = chunk * width + i;
    if (c >= columns) break;
    float step[kWidth];
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) step[j] = quantize_step(load_u16(payload + 2 * (c + j)), middle, status);
    THINWIRE_UNROLL
    for (int k = 0; k < quantize_unroll; ++k) {
      const std::int64_t r = first + k * static_cast<std::int64_t>(blockDim.y);
      if (r >= rows) continue;
      float* target = out + r * columns + c;
      Values<kWidth> values = {};
      if (kAdd) values = load_values<kWidth>(target);
      THINWIRE_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        const std::uint32_t code = packed[k] >> (8 * j + kBits * (chunks - 1 - chunk)) & ((1u << kBits) - 1);
        const float value = quantize_value(code, middle, step[j], half_arithmetic);
        values.v[j] = kAdd ? add(values.v[j], value) : value;
      }
      store_values<kWidth>(target, values);
    }
  }
}

/// Whether kWidth = 4 may be used: every row and chunk starts on 16 bytes of f32, every group of 4 codes on 4.
inline bool quantize_vectors(const void* values, const void* payload, std::int64_t columns, std::int64_t width) {
  return columns % 4 == 0 && width % 4 == 0 && aligned(values, 16) && aligned(payload, 4);
}
/// Threads along the columns of a code kernel: a power of two up to 64, so that narrow rows waste few threads.
inline int quantize_lanes(std::int64_t groups) {
  int lanes = 1;
  while (lanes < 64 && lanes < groups) lanes *= 2;
  return lanes;
}

}  // namespace thinwire::cuda
