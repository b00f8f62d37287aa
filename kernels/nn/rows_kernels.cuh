// Rows that repeat: y[r] += x[(first + r) % period] and its gradient.
#pragma once

#include "kernels/cuda/map.cuh"
#include "kernels/nn/device/types.cuh"

namespace thinwire::cuda {

/// gradient [period, columns] += rows r, r + period, r + 2 period, ... of dy, in order. Element i stands for row i / columns of the first
/// `period` rows of dy.
template <typename T>
struct RowsGradient {
  static constexpr int width = pack_size<T>;
  std::int64_t rows, columns, period, first;
  const T* dy;
  float* gradient;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float sum[kWidth] = {};
    for (std::int64_t at = i; at < rows * columns; at += period * columns) {
      float v[kWidth];
      load_pack<kWidth>(dy + at, v);
      THINWIRE_UNROLL
      for (int j = 0; j < kWidth; ++j) sum[j] += v[j];
    }
    float* to = gradient + (first + i / columns) % period * columns + i % columns;
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) to[j] += sum[j];
  }
};

template <typename T>
cudaError_t add_rows_gradient(std::int64_t rows, std::int64_t columns, std::int64_t period, std::int64_t first, const T* dy, float* gradient, void* stream) {
  const RowsGradient<T> operation{rows, columns, period, first, dy, gradient};
  return map(operation, (period < rows ? period : rows) * columns, packs_rows<T>(columns, {dy}), stream);
}

}  // namespace thinwire::cuda
