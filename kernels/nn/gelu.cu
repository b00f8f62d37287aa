// CUDA implementation of kernels/nn/gelu.cpp.
#include "kernels/cuda/map.cuh"
#include "kernels/nn/device/types.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_gelu_forward, thinwire_cuda_gelu_forward_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_gelu_backward, thinwire_cuda_gelu_backward_fn);

namespace {

constexpr float gelu_slope = 1.5957691216057308f;  // 2 sqrt(2 / pi)
constexpr float gelu_cubic = 0.044715f;

__device__ inline float gelu_sigmoid(float x) {
  return 1.0f / (1.0f + expf(-(gelu_slope * x * (x * x * gelu_cubic + 1.0f))));
}

template <typename T>
struct GeluForward {
  static constexpr int width = pack_size<T>;
  const T* x;
  T* y;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float v[kWidth];
    load_pack<kWidth>(x + i, v);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) v[j] *= gelu_sigmoid(v[j]);
    store_pack<kWidth>(y + i, v);
  }
};

template <typename T>
struct GeluBackward {
  static constexpr int width = pack_size<T>;
  const T *x, *dy;
  T* dx;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float v[kWidth], g[kWidth];
    load_pack<kWidth>(x + i, v);
    load_pack<kWidth>(dy + i, g);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      const float s = gelu_sigmoid(v[j]);
      const float slope = gelu_slope * v[j] * (v[j] * v[j] * (3 * gelu_cubic) + 1.0f);
      g[j] *= s * (slope * (1.0f - s) + 1.0f);
    }
    store_pack<kWidth>(dx + i, g);
  }
};

}  // namespace

int thinwire_cuda_gelu_forward(int type, std::int64_t count, const void* x, void* y, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    return map(GeluForward<T>{static_cast<const T*>(x), static_cast<T*>(y)}, count, aligned(x, 16) && aligned(y, 16), stream);
  });
}

int thinwire_cuda_gelu_backward(int type, std::int64_t count, const void* x, const void* dy, void* dx, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    return map(GeluBackward<T>{static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dx)}, count,
               aligned(x, 16) && aligned(dy, 16) && aligned(dx, 16), stream);
  });
}
