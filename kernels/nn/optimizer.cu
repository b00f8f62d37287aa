// CUDA implementation of kernels/nn/optimizer.cpp: every argument of AdamW is read once and written once.
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/nn/device/device_nn.h"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_adamw_step, thinwire_cuda_adamw_step_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_sum_of_squares, thinwire_cuda_sum_of_squares_fn);

namespace {

struct AdamWStep {
  static constexpr int width = 4;
  thinwire_cuda_adamw_factors f;
  const float* gradient;
  float *weight, *m, *v;
  BFloat16* copy;
  const double* squares;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float scale = f.gradient_scale;
    if (squares != nullptr) {
      const float norm = scale * static_cast<float>(sqrt(*squares));
      if (norm > f.max_norm) scale *= f.max_norm / norm;
    }
    float g[kWidth], w[kWidth], mean[kWidth], variance[kWidth];
    load_pack<kWidth>(gradient + i, g);
    load_pack<kWidth>(weight + i, w);
    load_pack<kWidth>(m + i, mean);
    load_pack<kWidth>(v + i, variance);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      const float scaled = g[j] * scale;
      mean[j] = f.beta1 * mean[j] + (1.0f - f.beta1) * scaled;
      variance[j] = f.beta2 * variance[j] + (1.0f - f.beta2) * (scaled * scaled);
      const float root = sqrtf(variance[j] * f.v_correction) + f.epsilon;
      w[j] = f.keep * w[j] - f.learning_rate * (mean[j] * f.m_correction / root);
    }
    store_pack<kWidth>(weight + i, w);
    store_pack<kWidth>(m + i, mean);
    store_pack<kWidth>(v + i, variance);
    if (copy == nullptr) return;
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) store_value(copy + i + j, w[j]);
  }
};

constexpr int squares_threads = 256;

__global__ void __launch_bounds__(squares_threads) block_squares(std::int64_t count, const float* __restrict__ x, bool vectors, double* partial) {
  __shared__ double scratch[squares_threads / 32];
  const std::int64_t first = blockIdx.x * squares_block, last = first + squares_block < count ? first + squares_block : count;
  double total = 0;
  std::int64_t done = first;
  if (vectors) {
    for (std::int64_t i = first + 4 * threadIdx.x; i + 4 <= last; i += 4 * squares_threads) {
      float v[4];
      load_pack<4>(x + i, v);
      total += static_cast<double>(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3]);
    }
    done = first + (last - first) / 4 * 4;
  }
  for (std::int64_t i = done + threadIdx.x; i < last; i += squares_threads) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  total = block_reduce<Sum, squares_threads>(total, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

__global__ void __launch_bounds__(squares_threads) add_squares(std::int64_t blocks, const double* __restrict__ partial, bool accumulate, double* sum) {
  __shared__ double scratch[squares_threads / 32];
  double total = 0;
  for (std::int64_t b = threadIdx.x; b < blocks; b += squares_threads) total += partial[b];
  total = block_reduce<Sum, squares_threads>(total, scratch);
  if (threadIdx.x == 0) *sum = accumulate ? *sum + total : total;
}

}  // namespace

int thinwire_cuda_adamw_step(const thinwire_cuda_adamw_factors* factors, std::int64_t count, const float* gradient, float* weight, float* m, float* v,
                             void* weight_copy, const double* squares, int ordinal, void* stream) {
  const AdamWStep step{*factors, gradient, weight, m, v, static_cast<BFloat16*>(weight_copy), squares};
  return on_device(ordinal, [&] {
    return map(step, count, aligned(gradient, 16) && aligned(weight, 16) && aligned(m, 16) && aligned(v, 16), stream);
  });
}

int thinwire_cuda_sum_of_squares(std::int64_t count, const float* x, double* sum, int accumulate, void* workspace, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    const std::int64_t blocks = ceil_divide(count, squares_block);
    auto* partial = static_cast<double*>(workspace);
    if (const auto e = launch(block_squares, blocks, squares_threads, stream, count, x, aligned(x, 16), partial); e != cudaSuccess) return e;
    return launch(add_squares, 1, squares_threads, stream, blocks, partial, accumulate != 0, sum);
  });
}
