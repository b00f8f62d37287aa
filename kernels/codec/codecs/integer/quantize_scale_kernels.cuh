// Scales of `quantize` on a device: the first of encode's two passes over x, as the scale of a channel depends on all its tokens. Bound:
// 4 bytes read per element; norm=l2 also writes and reads 8 bytes per column and tile of rows (quantize_row_tiles), at most 2 %.
#pragma once

#include "kernels/codec/codecs/integer/quantize_kernels.cuh"

namespace thinwire::cuda {

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

/// A column's scale into the payload, and its divisor half(scale + 1e-6).
__device__ inline void store_scale(std::int64_t c, std::uint16_t scale, bool finite, std::uint8_t* payload, float* divisor, std::uint32_t* status) {
  if (!finite) atomicOr(status, device_status_non_finite);
  else if (scale >= 0x7c00) atomicOr(status, device_status_beyond_range);
  store_u16(payload + 2 * c, scale);
  divisor[c] = half_value(half_bits(add(half_value(scale), 1e-6f)));
}

static __global__ void quantize_scales(const std::uint32_t* __restrict__ maxima, std::int64_t columns, std::uint8_t* payload, float* divisor,
                                       std::uint32_t* status) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c < columns) store_scale(c, half_bits(float_of(maxima[c])), finite_bits(maxima[c]), payload, divisor, status);
}

/// norm=l2: partial[tile][c] = sum of x[:, c]^2 over the tile's rows. Products of f32 are exact in float64, and sums of a tile run in an
/// order that depends on the shape alone; whether they are finite tells whether x is.
template <int kWidth>
__global__ void __launch_bounds__(quantize_threads) quantize_column_squares(const float* __restrict__ x, std::int64_t rows, std::int64_t columns,
                                                                            std::int64_t column_tiles, std::int64_t rows_per_tile, double* partial) {
  __shared__ double sums[maximum_rows][maximum_lanes * kWidth];
  const std::int64_t c = (blockIdx.x % column_tiles * maximum_lanes + threadIdx.x) * kWidth;
  const std::int64_t tile = blockIdx.x / column_tiles, first = tile * rows_per_tile;
  const std::int64_t last = first + rows_per_tile < rows ? first + rows_per_tile : rows;
  double sum[kWidth] = {};
  if (c < columns)
    for (std::int64_t r = first + threadIdx.y; r < last; r += quantize_unroll * maximum_rows) {
      Values<kWidth> values[quantize_unroll] = {};
      THINWIRE_UNROLL
      for (int k = 0; k < quantize_unroll; ++k)
        if (r + k * maximum_rows < last) values[k] = load_values<kWidth>(x + (r + k * maximum_rows) * columns + c);
      THINWIRE_UNROLL
      for (int k = 0; k < quantize_unroll; ++k)
        THINWIRE_UNROLL
        for (int j = 0; j < kWidth; ++j) sum[j] += static_cast<double>(values[k].v[j]) * static_cast<double>(values[k].v[j]);
    }
  THINWIRE_UNROLL
  for (int j = 0; j < kWidth; ++j) sums[threadIdx.y][threadIdx.x * kWidth + j] = sum[j];
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  THINWIRE_UNROLL
  for (int j = 0; j < kWidth; ++j) {
    double all = 0;
    THINWIRE_UNROLL
    for (int y = 0; y < maximum_rows; ++y) all += sums[y][threadIdx.x * kWidth + j];
    partial[tile * columns + c + j] = all;
  }
}

/// f64 to f16, rounded once: the f32 between is cut off with a sticky last bit, so it is no tie that x is not. x >= 0.
__device__ inline std::uint16_t half_bits_of(double x) {
  std::uint32_t bits = bits_of(static_cast<float>(x));
  if (static_cast<double>(float_of(bits)) > x) --bits;
  if (static_cast<double>(float_of(bits)) != x) bits |= 1;
  return half_bits(float_of(bits));
}

/// partial -> scales half(2 sqrt(mean x^2)) and divisors; maximum_rows threads share a column's tiles.
static __global__ void __launch_bounds__(quantize_threads) quantize_l2_scales(const double* __restrict__ partial, std::int64_t tiles, std::int64_t rows,
                                                                              std::int64_t columns, std::uint8_t* payload, float* divisor, std::uint32_t* status) {
  __shared__ double sums[maximum_rows][maximum_lanes];
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * maximum_lanes + threadIdx.x;
  double sum = 0;
  if (c < columns)
    for (std::int64_t t = threadIdx.y; t < tiles; t += maximum_rows) sum += partial[t * columns + c];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  THINWIRE_UNROLL
  for (int y = 1; y < maximum_rows; ++y) sum += sums[y][threadIdx.x];
  const double scale = 2 * sqrt(sum / static_cast<double>(rows > 0 ? rows : 1));
  store_scale(c, half_bits_of(scale), sum - sum == 0, payload, divisor, status);
}

}  // namespace thinwire::cuda
