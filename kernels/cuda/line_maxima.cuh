// The largest magnitude of each row of a matrix of long rows, or of a tensor as one row, by many blocks of threads. Bound: 4 bytes read per element.
#pragma once

#include "kernels/cuda/extremes.cuh"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/launch.cuh"

namespace thinwire::cuda {

constexpr int line_threads = 256, line_unroll = 8;  // 16-byte accesses in flight per thread
constexpr std::int64_t line_piece = line_threads * line_unroll * 4;

/// maxima[r] = the larger of it and the bits of |x[r, :]|.
template <int kWidth>
__global__ void __launch_bounds__(line_threads) line_maxima(const float* __restrict__ x, std::int64_t columns, std::int64_t pieces_of_row, std::uint32_t* maxima,
                                                            std::uint32_t* status) {
  __shared__ std::uint32_t scratch[line_threads / 32];
  const std::int64_t row = blockIdx.x / pieces_of_row, first = blockIdx.x % pieces_of_row * line_piece;
  const std::int64_t last = first + line_piece < columns ? first + line_piece : columns;
  Magnitude found = Magnitude::none();
  THINWIRE_UNROLL
  for (int k = 0; k < line_unroll * (4 / kWidth); ++k) {
    const std::int64_t at = first + (k * line_threads + static_cast<int>(threadIdx.x)) * kWidth;
    float v[kWidth] = {};
    if (at + kWidth <= last)
      load_pack<kWidth>(x + row * columns + at, v);
    else
      for (int j = 0; j < kWidth; ++j) v[j] = at + j < last ? x[row * columns + at + j] : 0.0f;
    see_all(v, kWidth, found);
  }
  const std::uint32_t all = block_reduce<Maximum, line_threads>(found.bits, scratch);
  if (threadIdx.x != 0) return;
  if (all >= 0x7f800000u) atomicOr(status, device_status_non_finite);
  if (all > 0) atomicMax(maxima + row, all);
}

inline cudaError_t queue_line_maxima(const float* x, std::int64_t rows, std::int64_t columns, std::uint32_t* maxima, std::uint32_t* status, void* stream) {
  if (const auto e = cudaMemsetAsync(maxima, 0, static_cast<std::size_t>(rows) * sizeof(std::uint32_t), static_cast<cudaStream_t>(stream)); e != cudaSuccess) return e;
  const std::int64_t pieces = ceil_divide(columns, line_piece);
  const auto kernel = aligned(x, 16) && (rows <= 1 || columns % 4 == 0) ? line_maxima<4> : line_maxima<1>;
  return launch(kernel, rows * pieces, line_threads, stream, x, columns, pieces, maxima, status);
}

}  // namespace thinwire::cuda
