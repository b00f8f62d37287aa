// The largest magnitude of some numbers, or both ends of their range, found by a team of threads: a power of two of neighbours in a block of threads. In whatever order
// they are looked at, the result is the same to the bit.
#pragma once

#include "kernels/cuda/reduce.cuh"

namespace thinwire::cuda {

/// Bits of |v|: as unsigned integers magnitudes keep their order, and NaN comes last.
struct Magnitude {
  std::uint32_t bits;
  static __device__ Magnitude none() { return {0}; }
  __device__ void see(float v) { join({bits_of(v) & 0x7fffffffu}); }
  __device__ void join(Magnitude other) { bits = other.bits > bits ? other.bits : bits; }
  __device__ Magnitude of_lane(int distance) const { return {__shfl_xor_sync(all_lanes, bits, distance)}; }
  __device__ bool finite() const { return bits < 0x7f800000u; }
};

/// Both ends; comparisons do not see NaN, so magnitudes are looked at, too, each thread its own.
struct Range {
  float least, largest;
  Magnitude own;
  static __device__ Range none() { return {float_of(0x7f800000u), float_of(0xff800000u), Magnitude::none()}; }
  __device__ void see(float v) { join({v, v, {bits_of(v) & 0x7fffffffu}}); }
  __device__ void join(Range other) {
    least = fminf(least, other.least), largest = fmaxf(largest, other.largest);
    own.join(other.own);
  }
  __device__ Range of_lane(int distance) const { return {__shfl_xor_sync(all_lanes, least, distance), __shfl_xor_sync(all_lanes, largest, distance), Magnitude::none()}; }
  __device__ bool finite() const { return own.finite(); }
};

/// Where nothing is looked for.
struct Nothing {
  static __device__ Nothing none() { return {}; }
  __device__ void see(float) {}
  __device__ void join(Nothing) {}
  __device__ Nothing of_lane(int) const { return {}; }
  __device__ bool finite() const { return true; }
};

template <typename Found, int kCount>
__device__ inline void see_all(const float (&v)[kCount], std::int64_t left, Found& found) {
  THINWIRE_UNROLL
  for (int j = 0; j < kCount; ++j)
    if (j < left) found.see(v[j]);
}

/// What all threads of a team have found, in each of them. All threads of the block come here. `of_warps`: shared memory.
template <typename Found, int kWarps>
__device__ inline Found found_by_team(Found found, int team, Found (&of_warps)[kWarps]) {
  for (int distance = (team < 32 ? team : 32) / 2; distance > 0; distance /= 2) found.join(found.of_lane(distance));
  if (team <= 32) return found;
  const int warps = team / 32, warp = static_cast<int>(threadIdx.x / 32), first = warp / warps * warps;
  if (threadIdx.x % 32 == 0) of_warps[warp] = found;
  __syncthreads();
  for (int w = first; w < first + warps; ++w) found.join(of_warps[w]);
  return found;
}

}  // namespace thinwire::cuda
