// Element-wise kernels: an operation says what happens to elements i .. i + kWidth - 1, these lay it over a tensor.
// An operation has `static constexpr int width` (elements per step where all its addresses allow 16-byte accesses) and
// `template <int kWidth> __device__ void run(std::int64_t i) const`.
#pragma once

#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/launch.cuh"

namespace thinwire::cuda {

constexpr int map_threads = 256;

template <int kWidth, typename Operation>
__global__ void map_elements(Operation operation, std::int64_t first, std::int64_t steps) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < steps) operation.template run<kWidth>(first + i * kWidth);
}

/// Runs `operation` on elements [0, count): steps of `width` where `vectors`, the rest one by one.
template <typename Operation>
cudaError_t map(const Operation& operation, std::int64_t count, bool vectors, void* stream) {
  const std::int64_t steps = vectors ? count / Operation::width : 0, rest = count - steps * Operation::width;
  if (steps > 0)
    if (const auto e = launch(map_elements<Operation::width, Operation>, ceil_divide(steps, map_threads), map_threads, stream, operation,
                              std::int64_t{0}, steps);
        e != cudaSuccess)
      return e;
  if (rest == 0) return cudaSuccess;
  return launch(map_elements<1, Operation>, ceil_divide(rest, map_threads), map_threads, stream, operation, steps * Operation::width, rest);
}

}  // namespace thinwire::cuda
