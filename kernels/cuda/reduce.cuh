// Sums, maxima and prefix sums over the threads of a block of one dimension. The order of additions depends on the
// block's size alone: equal inputs give equal bits.
#pragma once

#include "kernels/cuda/device_math.cuh"

namespace thinwire::cuda {

constexpr std::uint32_t all_lanes = 0xffffffffu;

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const { return a + b; }
};
struct Maximum {
  template <typename T>
  __device__ T operator()(T a, T b) const { return a > b ? a : b; }
};

/// The reduction of `value` over the lanes of a warp, in all of them.
template <typename Operator, typename T>
__device__ inline T warp_reduce(T value) {
  THINWIRE_UNROLL
  for (int lanes = 16; lanes > 0; lanes /= 2) value = Operator()(value, __shfl_xor_sync(all_lanes, value, lanes));
  return value;
}

/// Over a block of kThreads (a multiple of 32), in all threads. `scratch` [kThreads / 32] is shared memory that may be used again after
/// the call by all who have passed it: the call begins with a barrier.
template <typename Operator, int kThreads, typename T>
__device__ inline T block_reduce(T value, T* scratch) {
  constexpr int warps = kThreads / 32;
  value = warp_reduce<Operator>(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  T all = scratch[0];
  THINWIRE_UNROLL
  for (int w = 1; w < warps; ++w) all = Operator()(all, scratch[w]);
  return all;
}

/// Sum of the values of lower threads; `total` = that of all. `scratch` as above.
template <int kThreads, typename T>
__device__ inline T block_prefix(T value, T* scratch, T& total) {
  constexpr int warps = kThreads / 32;
  T inclusive = value;
  THINWIRE_UNROLL
  for (unsigned lanes = 1; lanes < 32; lanes *= 2) {
    const T lower = __shfl_up_sync(all_lanes, inclusive, lanes);
    if (threadIdx.x % 32 >= lanes) inclusive = inclusive + lower;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 31) scratch[threadIdx.x / 32] = inclusive;
  __syncthreads();
  T before = 0, all = 0;
  THINWIRE_UNROLL
  for (int w = 0; w < warps; ++w) {
    if (w < static_cast<int>(threadIdx.x / 32)) before = before + scratch[w];
    all = all + scratch[w];
  }
  total = all;
  return before + inclusive - value;
}

}  // namespace thinwire::cuda
