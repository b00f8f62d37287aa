// Sums over the rows of [rows, columns], in two steps of fixed order: blocks of column_sum_rows rows, then the blocks.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/nn/device/device_nn.h"

namespace thinwire::cuda {

constexpr int column_lanes = 32, column_lines = 8;

/// partial [blocks of rows][kSums][columns]. term(row, column, sums) adds one element to `sums`.
template <int kSums, typename Term>
__global__ void __launch_bounds__(column_lanes* column_lines) sum_rows(Term term, std::int64_t rows, std::int64_t columns, std::int64_t column_tiles,
                                                                       float* __restrict__ partial) {
  __shared__ float lines[kSums][column_lines][column_lanes + 1];
  const std::int64_t block = blockIdx.x / column_tiles;
  const std::int64_t c = blockIdx.x % column_tiles * column_lanes + threadIdx.x;
  const std::int64_t first = block * column_sum_rows, last = first + column_sum_rows < rows ? first + column_sum_rows : rows;
  float sums[kSums] = {};
  if (c < columns)
    for (std::int64_t r = first + threadIdx.y; r < last; r += column_lines) term(r, c, sums);
  THINWIRE_UNROLL
  for (int s = 0; s < kSums; ++s) lines[s][threadIdx.y][threadIdx.x] = sums[s];
  __syncthreads();
  if (threadIdx.y >= kSums || c >= columns) return;
  float all = 0;
  THINWIRE_UNROLL
  for (int y = 0; y < column_lines; ++y) all += lines[threadIdx.y][y][threadIdx.x];
  partial[(block * kSums + threadIdx.y) * columns + c] = all;
}

/// totals[s][c] += the blocks' sums, in order.
template <int kSums>
__global__ void add_partial_sums(const float* __restrict__ partial, std::int64_t blocks, std::int64_t columns, float* first, float* second) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= kSums * columns) return;
  const std::int64_t s = i / columns, c = i % columns;
  float sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += partial[(b * kSums + s) * columns + c];
  (s == 0 ? first : second)[c] += sum;
}

template <int kSums, typename Term>
cudaError_t column_sums(const Term& term, std::int64_t rows, std::int64_t columns, float* first, float* second, void* workspace, void* stream) {
  const std::int64_t blocks = ceil_divide(rows, column_sum_rows), tiles = ceil_divide(columns, column_lanes);
  auto* partial = static_cast<float*>(workspace);
  if (const auto e = launch(sum_rows<kSums, Term>, blocks * tiles, dim3(column_lanes, column_lines), stream, term, rows, columns, tiles, partial);
      e != cudaSuccess)
    return e;
  return launch(add_partial_sums<kSums>, ceil_divide(kSums * columns, 256), 256, stream, partial, blocks, columns, first, second);
}

}  // namespace thinwire::cuda
