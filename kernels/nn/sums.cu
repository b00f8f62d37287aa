// CUDA implementation of kernels/nn/sums.cpp: one block, whose threads add in a fixed order.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/nn/device/device_nn.h"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_add_total, thinwire_cuda_add_total_fn);

namespace {

constexpr int total_threads = 256;

template <typename T, typename S>
__global__ void __launch_bounds__(total_threads) add_total(std::int64_t count, const T* __restrict__ values, double factor, double divisor, S* sum) {
  __shared__ double scratch[total_threads / 32];
  double total = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += total_threads) total += static_cast<double>(values[i]);
  total = block_reduce<Sum, total_threads>(total, scratch);
  if (threadIdx.x == 0) *sum = static_cast<S>(static_cast<double>(*sum) + factor * (total / divisor));
}

template <typename T, typename S>
cudaError_t queue_total(std::int64_t count, const void* values, double factor, double divisor, void* sum, void* stream) {
  return launch(add_total<T, S>, 1, total_threads, stream, count, static_cast<const T*>(values), factor, divisor, static_cast<S*>(sum));
}

}  // namespace

int thinwire_cuda_add_total(int values_f64, int sum_f64, std::int64_t count, const void* values, double factor, double divisor, void* sum, int ordinal,
                            void* stream) {
  return on_device(ordinal, [&] {
    if (values_f64 != 0)
      return sum_f64 != 0 ? queue_total<double, double>(count, values, factor, divisor, sum, stream)
                          : queue_total<double, float>(count, values, factor, divisor, sum, stream);
    return sum_f64 != 0 ? queue_total<float, double>(count, values, factor, divisor, sum, stream)
                        : queue_total<float, float>(count, values, factor, divisor, sum, stream);
  });
}
