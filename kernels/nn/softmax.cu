// CUDA implementation of the cross-entropies of kernels/nn/softmax.cpp and split_softmax.cpp: a block per row, which reads its logits twice and
// writes them once. The softmax of attention is part of attention.cu.
#include <limits>

#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/nn/device/types.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_cross_entropy, thinwire_cuda_cross_entropy_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_softmax_statistics, thinwire_cuda_softmax_statistics_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_split_cross_entropy, thinwire_cuda_split_cross_entropy_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_take_maxima, thinwire_cuda_take_maxima_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_rescale_sums, thinwire_cuda_rescale_sums_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_join_statistics, thinwire_cuda_join_statistics_fn);

namespace {

constexpr int softmax_threads = 256;
constexpr float nowhere = -std::numeric_limits<float>::infinity();

// Largest of row[0 .. valid) and the sum of exp(row - largest), in one pass, in all threads.
template <int kWidth, typename T>
__device__ inline void softmax_of_row(const T* row, std::int64_t valid, float* scratch, float& largest, float& sum) {
  float own = nowhere, total = 0;
  const auto take = [&](float v) {
    if (v > own) {
      total *= expf(own - v);
      own = v;
    }
    total += expf(v - own);
  };
  const std::int64_t whole = valid / kWidth * kWidth;
  for (std::int64_t c = threadIdx.x * kWidth; c < whole; c += softmax_threads * kWidth) {
    float v[kWidth];
    load_pack<kWidth>(row + c, v);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) take(v[j]);
  }
  if (const std::int64_t c = whole + threadIdx.x; c < valid) take(value_of(row[c]));
  largest = block_reduce<Maximum, softmax_threads>(own, scratch);
  sum = block_reduce<Sum, softmax_threads>(own == nowhere ? total : total * expf(own - largest), scratch);
}

// row[c] = factor * exp(row[c] - largest) (0 from `valid` on), less `at_target` at the target.
template <int kWidth, typename T>
__device__ inline void softmax_gradient_of_row(T* row, std::int64_t columns, std::int64_t valid, std::int64_t target, float largest, float factor,
                                               float at_target) {
  const auto gradient = [&](std::int64_t c, float v) {
    if (c >= valid) return 0.0f;
    return factor * expf(v - largest) - (c == target ? at_target : 0.0f);
  };
  const std::int64_t whole = columns / kWidth * kWidth;
  for (std::int64_t c = threadIdx.x * kWidth; c < whole; c += softmax_threads * kWidth) {
    float v[kWidth];
    load_pack<kWidth>(row + c, v);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) v[j] = gradient(c + j, v[j]);
    store_pack<kWidth>(row + c, v);
  }
  if (const std::int64_t c = whole + threadIdx.x; c < columns) store_value(row + c, gradient(c, value_of(row[c])));
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(softmax_threads) cross_entropy(std::int64_t vocab, T* logits, const std::int32_t* __restrict__ targets, float gradient_scale,
                                                                 float* losses, std::uint32_t* status) {
  __shared__ float scratch[softmax_threads / 32];
  const std::int64_t r = blockIdx.x, target = targets[r];
  if (target < 0 || target >= vocab) {
    if (threadIdx.x == 0) atomicOr(status, device_status_damaged), losses[r] = 0;
    return;
  }
  T* row = logits + r * vocab;
  float largest = 0, sum = 0;
  softmax_of_row<kWidth>(row, vocab, scratch, largest, sum);
  if (threadIdx.x == 0) losses[r] = largest + logf(sum) - value_of(row[target]);
  __syncthreads();
  softmax_gradient_of_row<kWidth>(row, vocab, vocab, target, largest, gradient_scale / sum, gradient_scale);
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(softmax_threads) softmax_statistics(std::int64_t columns, std::int64_t valid, std::int64_t first, std::int64_t vocab,
                                                                      const T* __restrict__ logits, const std::int32_t* __restrict__ targets,
                                                                      float* statistics, std::uint32_t* status) {
  __shared__ float scratch[softmax_threads / 32];
  const std::int64_t r = blockIdx.x, target = targets[r];
  float largest = 0, sum = 0;
  softmax_of_row<kWidth>(logits + r * columns, valid, scratch, largest, sum);
  if (threadIdx.x != 0) return;
  if (target < 0 || target >= vocab) atomicOr(status, device_status_damaged);
  const std::int64_t here = target - first;
  statistics[3 * r] = largest;
  statistics[3 * r + 1] = sum;
  statistics[3 * r + 2] = here >= 0 && here < valid ? value_of(logits[r * columns + here]) : nowhere;
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(softmax_threads) split_cross_entropy(std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first,
                                                                       int ranks, const float* __restrict__ statistics,
                                                                       const std::int32_t* __restrict__ targets, float gradient_scale, T* logits,
                                                                       float* losses) {
  const std::int64_t r = blockIdx.x;
  float largest = statistics[3 * r];
  for (int rank = 1; rank < ranks; ++rank) largest = fmaxf(largest, statistics[3 * (rank * rows + r)]);
  float sum = 0, of_target = nowhere;
  for (int rank = 0; rank < ranks; ++rank) {
    const float* s = statistics + 3 * (rank * rows + r);
    if (s[1] > 0) sum += s[1] * expf(s[0] - largest);  // a rank of padding alone has nothing to add
    if (!(s[1] >= 0)) sum = s[1];                      // NaN must not be lost
    of_target = fmaxf(of_target, s[2]);
  }
  if (threadIdx.x == 0) losses[r] = logf(sum) + largest - of_target;
  softmax_gradient_of_row<kWidth>(logits + r * columns, columns, valid, targets[r] - first, largest, gradient_scale / sum, gradient_scale);
}

// Statistics of rows, one by one: they are few.
struct TakeMaxima {
  static constexpr int width = 1;
  const float* statistics;
  float* maxima;
  template <int kWidth>
  __device__ void run(std::int64_t r) const {
    maxima[r] = statistics[3 * r];
  }
};

struct RescaleSums {
  static constexpr int width = 1;
  bool any;
  const float *statistics, *maxima;
  float* sums;
  template <int kWidth>
  __device__ void run(std::int64_t r) const {
    const float* s = statistics + 3 * r;
    sums[2 * r] = any ? s[1] * expf(s[0] - maxima[r]) : 0.0f;
    sums[2 * r + 1] = s[2] > nowhere ? s[2] : 0.0f;
  }
};

struct JoinStatistics {
  static constexpr int width = 1;
  const float *maxima, *sums;
  float* statistics;
  template <int kWidth>
  __device__ void run(std::int64_t r) const {
    statistics[3 * r] = maxima[r];
    statistics[3 * r + 1] = sums[2 * r];
    statistics[3 * r + 2] = sums[2 * r + 1];
  }
};

}  // namespace

int thinwire_cuda_take_maxima(std::int64_t rows, const float* statistics, float* maxima, int ordinal, void* stream) {
  return on_device(ordinal, [&] { return map(TakeMaxima{statistics, maxima}, rows, false, stream); });
}
int thinwire_cuda_rescale_sums(std::int64_t rows, std::int64_t valid, const float* statistics, const float* maxima, float* sums, int ordinal, void* stream) {
  return on_device(ordinal, [&] { return map(RescaleSums{valid > 0, statistics, maxima, sums}, rows, false, stream); });
}
int thinwire_cuda_join_statistics(std::int64_t rows, const float* maxima, const float* sums, float* statistics, int ordinal, void* stream) {
  return on_device(ordinal, [&] { return map(JoinStatistics{maxima, sums, statistics}, rows, false, stream); });
}

int thinwire_cuda_cross_entropy(int type, std::int64_t rows, std::int64_t vocab, void* logits, const std::int32_t* targets, float gradient_scale,
                                float* losses, std::uint32_t* status, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const auto kernel = packs_rows<T>(vocab, {logits}) ? cross_entropy<pack_size<T>, T> : cross_entropy<1, T>;
    return launch(kernel, rows, softmax_threads, stream, vocab, static_cast<T*>(logits), targets, gradient_scale, losses, status);
  });
}

int thinwire_cuda_softmax_statistics(int type, std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first, std::int64_t vocab,
                                     const void* logits, const std::int32_t* targets, float* statistics, std::uint32_t* status, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const auto kernel = packs_rows<T>(columns, {logits}) ? softmax_statistics<pack_size<T>, T> : softmax_statistics<1, T>;
    return launch(kernel, rows, softmax_threads, stream, columns, valid, first, vocab, static_cast<const T*>(logits), targets, statistics, status);
  });
}

int thinwire_cuda_split_cross_entropy(int type, std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first, int ranks,
                                      const float* statistics, const std::int32_t* targets, float gradient_scale, void* logits, float* losses, int ordinal,
                                      void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const auto kernel = packs_rows<T>(columns, {logits}) ? split_cross_entropy<pack_size<T>, T> : split_cross_entropy<1, T>;
    return launch(kernel, rows, softmax_threads, stream, rows, columns, valid, first, ranks, statistics, targets, gradient_scale, static_cast<T*>(logits),
                  losses);
  });
}
