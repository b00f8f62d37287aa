// CUDA implementation of kernels/nn/layernorm.cpp: a warp per row, in 16-byte accesses where rows allow it.
#include "kernels/nn/column_sums_kernels.cuh"
#include "kernels/nn/device/types.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_row_moments, thinwire_cuda_row_moments_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_normalise, thinwire_cuda_normalise_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_gradient_moments, thinwire_cuda_gradient_moments_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_normalise_backward, thinwire_cuda_normalise_backward_fn);

namespace {

constexpr int norm_threads = 256, norm_rows = norm_threads / 32;
constexpr float norm_epsilon = 1e-5f;  // nn::layernorm_epsilon

__device__ inline std::int64_t row_of_warp() { return static_cast<std::int64_t>(blockIdx.x) * norm_rows + threadIdx.x / 32; }

// sums over a row of f(elements of x and dy from column c on).
template <int kWidth, typename T>
__device__ inline void moments_of_row(const T* x, std::int64_t columns, float& plain, float& square) {
  for (std::int64_t c = (threadIdx.x % 32) * kWidth; c < columns; c += 32 * kWidth) {
    float v[kWidth];
    load_pack<kWidth>(x + c, v);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) plain += v[j], square += v[j] * v[j];
  }
  plain = warp_reduce<Sum>(plain), square = warp_reduce<Sum>(square);
}

template <int kWidth, typename T>
__device__ inline void gradient_moments_of_row(const T* x, const T* dy, const float* gamma, std::int64_t columns, float mean, float rstd, float& plain,
                                               float& with_xhat) {
  for (std::int64_t c = (threadIdx.x % 32) * kWidth; c < columns; c += 32 * kWidth) {
    float v[kWidth], d[kWidth];
    load_pack<kWidth>(x + c, v);
    load_pack<kWidth>(dy + c, d);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      const float g = d[j] * gamma[c + j];
      plain += g, with_xhat += g * ((v[j] - mean) * rstd);
    }
  }
  plain = warp_reduce<Sum>(plain), with_xhat = warp_reduce<Sum>(with_xhat);
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(norm_threads) row_moments(std::int64_t rows, std::int64_t columns, const T* __restrict__ x, float* sums) {
  const std::int64_t r = row_of_warp();
  if (r >= rows) return;
  float plain = 0, square = 0;
  moments_of_row<kWidth>(x + r * columns, columns, plain, square);
  if (threadIdx.x % 32 == 0) sums[2 * r] = plain, sums[2 * r + 1] = square;
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(norm_threads) normalise(std::int64_t rows, std::int64_t columns, float hidden, const T* __restrict__ x,
                                                          const float* __restrict__ sums, const float* __restrict__ gamma,
                                                          const float* __restrict__ beta, T* __restrict__ y, float* mean_out, float* rstd_out) {
  const std::int64_t r = row_of_warp();
  if (r >= rows) return;
  float plain = 0, square = 0;
  if (sums == nullptr) moments_of_row<kWidth>(x + r * columns, columns, plain, square);
  else plain = sums[2 * r], square = sums[2 * r + 1];
  const float mean = plain / hidden;
  const float rstd = 1.0f / sqrtf(fmaxf(0.0f, square / hidden - mean * mean) + norm_epsilon);
  if (threadIdx.x % 32 == 0) mean_out[r] = mean, rstd_out[r] = rstd;
  for (std::int64_t c = (threadIdx.x % 32) * kWidth; c < columns; c += 32 * kWidth) {
    float v[kWidth];
    load_pack<kWidth>(x + r * columns + c, v);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) v[j] = gamma[c + j] * ((v[j] - mean) * rstd) + beta[c + j];
    store_pack<kWidth>(y + r * columns + c, v);
  }
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(norm_threads) gradient_moments(std::int64_t rows, std::int64_t columns, const T* __restrict__ x, const T* __restrict__ dy,
                                                                 const float* __restrict__ gamma, const float* mean, const float* rstd, float* sums) {
  const std::int64_t r = row_of_warp();
  if (r >= rows) return;
  float plain = 0, with_xhat = 0;
  gradient_moments_of_row<kWidth>(x + r * columns, dy + r * columns, gamma, columns, mean[r], rstd[r], plain, with_xhat);
  if (threadIdx.x % 32 == 0) sums[2 * r] = plain, sums[2 * r + 1] = with_xhat;
}

// dx may be dy.
template <int kWidth, typename T>
__global__ void __launch_bounds__(norm_threads) normalise_backward(std::int64_t rows, std::int64_t columns, float hidden, const T* __restrict__ x,
                                                                   const T* dy, const float* __restrict__ gamma, const float* __restrict__ means,
                                                                   const float* __restrict__ rstds, const float* __restrict__ sums, bool accumulate, T* dx) {
  const std::int64_t r = row_of_warp();
  if (r >= rows) return;
  const float mean = means[r], rstd = rstds[r];
  float plain = 0, with_xhat = 0;
  if (sums == nullptr) gradient_moments_of_row<kWidth>(x + r * columns, dy + r * columns, gamma, columns, mean, rstd, plain, with_xhat);
  else plain = sums[2 * r], with_xhat = sums[2 * r + 1];
  const float mean_g = plain / hidden, mean_gx = with_xhat / hidden;
  for (std::int64_t c = (threadIdx.x % 32) * kWidth; c < columns; c += 32 * kWidth) {
    float v[kWidth], d[kWidth], before[kWidth] = {};
    load_pack<kWidth>(x + r * columns + c, v);
    load_pack<kWidth>(dy + r * columns + c, d);
    if (accumulate) load_pack<kWidth>(dx + r * columns + c, before);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) before[j] += rstd * (d[j] * gamma[c + j] - mean_g - (v[j] - mean) * rstd * mean_gx);
    store_pack<kWidth>(dx + r * columns + c, before);
  }
}

// Element (r, c) of the gradients of gamma and beta.
template <typename T>
struct NormGradient {
  const T *x, *dy;
  const float *mean, *rstd;
  std::int64_t columns;
  __device__ void operator()(std::int64_t r, std::int64_t c, float (&sums)[2]) const {
    const float d = value_of(dy[r * columns + c]);
    sums[0] += d * ((value_of(x[r * columns + c]) - mean[r]) * rstd[r]);
    sums[1] += d;
  }
};

}  // namespace

int thinwire_cuda_row_moments(int type, std::int64_t rows, std::int64_t columns, const void* x, float* sums, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const auto kernel = packs_rows<T>(columns, {x}) ? row_moments<pack_size<T>, T> : row_moments<1, T>;
    return launch(kernel, ceil_divide(rows, norm_rows), norm_threads, stream, rows, columns, static_cast<const T*>(x), sums);
  });
}

int thinwire_cuda_normalise(int type, std::int64_t rows, std::int64_t columns, std::int64_t hidden, const void* x, const float* sums, const float* gamma,
                            const float* beta, void* y, float* mean, float* rstd, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const auto kernel = packs_rows<T>(columns, {x, y}) ? normalise<pack_size<T>, T> : normalise<1, T>;
    return launch(kernel, ceil_divide(rows, norm_rows), norm_threads, stream, rows, columns, static_cast<float>(hidden), static_cast<const T*>(x), sums,
                  gamma, beta, static_cast<T*>(y), mean, rstd);
  });
}

int thinwire_cuda_gradient_moments(int type, std::int64_t rows, std::int64_t columns, const void* x, const void* dy, const float* gamma, const float* mean,
                                   const float* rstd, float* sums, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const auto kernel = packs_rows<T>(columns, {x, dy}) ? gradient_moments<pack_size<T>, T> : gradient_moments<1, T>;
    return launch(kernel, ceil_divide(rows, norm_rows), norm_threads, stream, rows, columns, static_cast<const T*>(x), static_cast<const T*>(dy), gamma,
                  mean, rstd, sums);
  });
}

int thinwire_cuda_normalise_backward(int type, std::int64_t rows, std::int64_t columns, std::int64_t hidden, const void* x, const void* dy,
                                     const float* gamma, const float* mean, const float* rstd, const float* sums, int accumulate, void* dx, float* dgamma,
                                     float* dbeta, void* workspace, int ordinal, void* stream) {
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    // The parameters' gradients first: dx may be dy.
    const NormGradient<T> term{static_cast<const T*>(x), static_cast<const T*>(dy), mean, rstd, columns};
    if (const auto e = column_sums<2>(term, rows, columns, dgamma, dbeta, workspace, stream); e != cudaSuccess) return e;
    const auto kernel = packs_rows<T>(columns, {x, dy, dx}) ? normalise_backward<pack_size<T>, T> : normalise_backward<1, T>;
    return launch(kernel, ceil_divide(rows, norm_rows), norm_threads, stream, rows, columns, static_cast<float>(hidden), static_cast<const T*>(x),
                  static_cast<const T*>(dy), gamma, mean, rstd, sums, accumulate != 0, static_cast<T*>(dx));
  });
}
