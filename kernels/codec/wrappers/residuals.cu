// CUDA implementation of the arithmetic of kernels/codec/wrappers/residuals.cpp: what error feedback and lazy error propagation do to tensors.
#include "kernels/codec/wrappers/residuals_entries.h"
#include "kernels/cuda/map.cuh"

using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_residual_add, thinwire_cuda_residual_add_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_residual_store, thinwire_cuda_residual_store_fn);

namespace {

// One operation for both: to = a + factor * b, rounded twice as on the host.
struct ScaledSum {
  static constexpr int width = 4;
  const float *a, *b;
  float factor;
  float* to;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float x[kWidth], y[kWidth];
    load_pack<kWidth>(a + i, x);
    load_pack<kWidth>(b + i, y);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) x[j] = add(x[j], multiply(factor, y[j]));
    store_pack<kWidth>(to + i, x);
  }
};

int scaled_sum(const float* a, const float* b, float factor, float* to, std::int64_t count, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    return map(ScaledSum{a, b, factor, to}, count, aligned(a, 16) && aligned(b, 16) && aligned(to, 16), stream);
  });
}

}  // namespace

int thinwire_cuda_residual_add(float* x, const float* residual, float beta, std::int64_t count, int ordinal, void* stream) {
  return scaled_sum(x, residual, beta, x, count, ordinal, stream);
}

int thinwire_cuda_residual_store(const float* x, const float* seen, float* residual, std::int64_t count, int ordinal, void* stream) {
  return scaled_sum(x, seen, -1.0f, residual, count, ordinal, stream);
}
