// Kernels of `quantize` on a device (norm=max, packing=chunk; the maths stands in kernels/codec/quantize.cpp).
// Encode is two passes over x, as the scale of a channel depends on all its tokens: largest magnitudes, then codes.
// kWidth = 4 moves 16 bytes of f32 per access and needs aligned rows and chunks; kWidth = 1 takes any shape.
#pragma once

#include "kernels/codec/device_kernels.h"
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

/// Tiles of `blockDim.x * kWidth` columns by `rows_per_tile` rows; the columns' tile varies fastest over blocks.
constexpr int maximum_lanes = 32;
constexpr int maximum_rows = quantize_threads / maximum_lanes;
constexpr int maximum_rows_per_tile = maximum_rows * 16;

/// maxima[c] = max(maxima[c], bits of |x[:, c]|): as unsigned integers magnitudes keep their order and NaN comes last.
template <int kWidth>
__global__ void quantize_column_maxima(const float* __restrict__ x, std::int64_t rows, std::int64_t columns, std::int64_t column_tiles,
                                       std::uint32_t* maxima) {
  __shared__ std::uint32_t partial[maximum_rows][maximum_lanes * kWidth];
  const std::int64_t tile = blockIdx.x % column_tiles;
  const std::int64_t c = (tile * maximum_lanes + threadIdx.x) * kWidth;
  const std::int64_t first = blockIdx.x / column_tiles * maximum_rows_per_tile;
  std::uint32_t largest[kWidth] = {};
  if (c < columns) {
    THINWIRE_UNROLL
    for (int k = 0; k < maximum_rows_per_tile / maximum_rows; ++k) {
      const std::int64_t r = first + k * maximum_rows + threadIdx.y;
      if (r >= rows) continue;
      const Values<kWidth> values = load_values<kWidth>(x + r * columns + c);
      THINWIRE_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        const std::uint32_t magnitude = bits_of(values.v[j]) & 0x7fffffffu;
        largest[j] = magnitude > largest[j] ? magnitude : largest[j];
      }
    }
  }
  THINWIRE_UNROLL
  for (int j = 0; j < kWidth; ++j) partial[threadIdx.y][threadIdx.x * kWidth + j] = largest[j];
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  THINWIRE_UNROLL
  for (int j = 0; j < kWidth; ++j) {
    std::uint32_t all = 0;
    THINWIRE_UNROLL
    for (int y = 0; y < maximum_rows; ++y) {
      const std::uint32_t one = partial[y][threadIdx.x * kWidth + j];
      all = one > all ? one : all;
    }
    if (all != 0) atomicMax(maxima + c + j, all);
  }
}

/// maxima -> scales (f16, into the payload) and divisors half(scale + 1e-6).
static __global__ void quantize_scales(const std::uint32_t* __restrict__ maxima, std::int64_t columns, std::uint8_t* payload, float* divisor,
                                       std::uint32_t* status) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= columns) return;
  const std::uint32_t bits = maxima[c];
  const std::uint16_t scale = half_bits(float_of(bits));
  if (bits >= 0x7f800000u) atomicOr(status, device_status_non_finite);
  else if (scale >= 0x7c00) atomicOr(status, device_status_beyond_range);
  store_u16(payload + 2 * c, scale);
  divisor[c] = half_value(half_bits(add(half_value(scale), 1e-6f)));
}

template <int kBits>
__device__ inline std::uint32_t quantize_code(float x, float divisor) {
  constexpr float half = 1 << (kBits - 1);
  const float y = multiply(divide(x, divisor), half);
  return static_cast<std::uint32_t>(static_cast<int>(rintf(fminf(fmaxf(y, -half), half - 1))) + (1 << (kBits - 1)));
}

/// Bytes i .. i + kWidth - 1 of quantize_unroll rows per thread; `width` = bytes per row = columns of a chunk.
template <int kBits, int kWidth>
__global__ void quantize_encode_codes(const float* __restrict__ x, std::int64_t rows, std::int64_t columns, std::int64_t width,
                                      std::int64_t column_tiles, const float* __restrict__ divisor, std::uint8_t* __restrict__ codes) {
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
      for (int j = 0; j < kWidth; ++j) packed[k][j] = packed[k][j] << kBits | quantize_code<kBits>(values[k].v[j], by.v[j]);
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
                                      std::int64_t column_tiles, float* __restrict__ out, std::uint32_t* status) {
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
    for (int j = 0; j < kWidth; ++j) {
      const std::uint16_t scale = load_u16(payload + 2 * (c + j));
      if (scale >= 0x7c00) atomicOr(status, device_status_damaged);  // negative, infinite or NaN
      step[j] = multiply(half_value(scale), 1.0f / middle);
    }
    THINWIRE_UNROLL
    for (int k = 0; k < quantize_unroll; ++k) {
      const std::int64_t r = first + k * static_cast<std::int64_t>(blockDim.y);
      if (r >= rows) continue;
      float* target = out + r * columns + c;
      Values<kWidth> values = {};
      if (kAdd) values = load_values<kWidth>(target);
      THINWIRE_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        const int code = static_cast<int>(packed[k] >> (8 * j + kBits * (chunks - 1 - chunk)) & ((1u << kBits) - 1));
        const float value = multiply(static_cast<float>(code - middle), step[j]);
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
