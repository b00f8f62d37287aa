// Exact selection of the k largest |x| on a device, without a sort and without the host looking (the CUDA implementation of
// kernels/sparse/top_magnitudes.cpp; the lower position wins among equal magnitudes):
//   1. a sample of 16384 values bounds the k-th magnitude from below with a margin,
//   2. one pass over x collects, tile by tile and in order, every element from the bound on; a second launch collects all
//      elements where these were fewer than k, and returns at once elsewhere,
//   3. radix selection over what was collected: three digits of 11, 10 and 10 bits give the k-th magnitude exactly, and
//      how many elements equal to it stay,
//   4. counts per tile, their prefix sums, and each kept element knows its place in the list.
// x is read once; all else touches the collected elements only. Results do not depend on the sample.
#pragma once

#include <cmath>

#include "core/random.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/sparse/device_sizes.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/sparse/index_coding_kernels.cuh"

namespace thinwire::cuda {

constexpr int top_tile = 4096;  // elements a block collects from; offsets inside it take 16 bits
constexpr int top_threads = 256;
constexpr int top_bins = 2048;
constexpr int top_digits = 3;
constexpr std::int64_t top_sample = 16384, top_sample_run = 16;  // neighbours per random position, as on the host

/// What the kernels of one selection tell each other. Zero before the first.
struct TopState {
  std::uint32_t bound;      ///< collected magnitudes start here
  std::uint32_t collected;
  std::uint32_t prefix;     ///< digits found so far; after the last the k-th magnitude itself
  std::uint32_t rank;       ///< among those with that prefix, 1 = largest; after the last: how many equal ones stay
  std::uint32_t finished[top_digits];  ///< blocks
  std::uint32_t unused;
  std::uint32_t histogram[top_digits][top_bins];
};

constexpr int top_digit_shift(int digit) { return digit == 0 ? 20 : digit == 1 ? 10 : 0; }
constexpr int top_digit_bits(int digit) { return digit == 0 ? 11 : 10; }
__device__ inline std::uint32_t magnitude_of(float x) { return bits_of(x) & 0x7fffffffu; }

/// From the highest bin down: the bin that holds rank `rank`, which becomes the rank inside it. All threads of the block get both.
template <int kThreads>
__device__ inline std::uint32_t top_pick_bin(const std::uint32_t* histogram, std::uint32_t& rank) {
  constexpr int per_thread = top_bins / kThreads;
  __shared__ std::uint32_t scratch[kThreads / 32], found[2];
  std::uint32_t own[per_thread], sum = 0, total = 0;
  THINWIRE_UNROLL
  for (int i = 0; i < per_thread; ++i) {
    own[i] = histogram[top_bins - 1 - (static_cast<int>(threadIdx.x) * per_thread + i)];
    sum += own[i];
  }
  std::uint32_t above = block_prefix<kThreads>(sum, scratch, total);
  THINWIRE_UNROLL
  for (int i = 0; i < per_thread; ++i) {
    if (above < rank && rank <= above + own[i]) {
      found[0] = static_cast<std::uint32_t>(top_bins - 1 - (static_cast<int>(threadIdx.x) * per_thread + i));
      found[1] = rank - above;
    }
    above += own[i];
  }
  __syncthreads();
  rank = found[1];
  return found[0];
}

/// One block: state->bound = magnitude of rank `rank` in a random sample of x. count >= 4 * top_sample.
static __global__ void __launch_bounds__(1024) top_sampled_bound(const float* __restrict__ x, std::int64_t count, std::uint32_t rank, TopState* state) {
  __shared__ std::uint32_t histogram[top_bins];
  constexpr int per_thread = static_cast<int>(top_sample) / 1024;
  const auto lines = static_cast<std::uint64_t>(count / top_sample_run);
  std::uint32_t values[per_thread];
  THINWIRE_UNROLL
  for (int i = 0; i < per_thread; ++i) {
    const std::int64_t sample = static_cast<std::int64_t>(i) * 1024 + threadIdx.x;
    const std::uint64_t line = (mix_stream(0x746f706bull, static_cast<std::uint64_t>(sample / top_sample_run)) >> 32) * lines >> 32;
    values[i] = magnitude_of(x[line * top_sample_run + static_cast<std::uint64_t>(sample % top_sample_run)]);
  }
  std::uint32_t prefix = 0;
  for (int digit = 0; digit < top_digits; ++digit) {
    const int shift = top_digit_shift(digit), bits = top_digit_bits(digit);
    for (int b = static_cast<int>(threadIdx.x); b < top_bins; b += 1024) histogram[b] = 0;
    __syncthreads();
    THINWIRE_UNROLL
    for (int i = 0; i < per_thread; ++i)
      if (digit == 0 || values[i] >> (shift + bits) == prefix) atomicAdd(histogram + (values[i] >> shift & ((1u << bits) - 1)), 1u);
    __syncthreads();
    prefix = prefix << bits | top_pick_bin<1024>(histogram, rank);
    __syncthreads();
  }
  if (threadIdx.x == 0) state->bound = prefix;
}

/// A block takes tile blockIdx.x: its elements of magnitude >= the bound, in order, go to the tile's own place in `offsets` and `values`
/// ([tiles, top_tile]). `again`: all elements, and only where the first pass has found fewer than `kept`.
template <bool kVectors>
__global__ void __launch_bounds__(top_threads) top_collect(const float* __restrict__ x, std::int64_t count, std::uint32_t kept, bool again, TopState* state,
                            std::uint16_t* __restrict__ offsets, float* __restrict__ values, std::uint32_t* counts, std::uint32_t* status) {
  constexpr int steps = top_tile / top_threads / 4;
  __shared__ unsigned long long scratch[top_threads / 32];
  if (again && state->collected >= kept) return;
  const std::uint32_t bound = again ? 0 : state->bound;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * top_tile;
  float v[steps][4];
  std::uint32_t inside = 0;  // one bit per element: it exists
  THINWIRE_UNROLL
  for (int u = 0; u < steps; ++u) {
    const std::int64_t i = first + (u * top_threads + static_cast<int>(threadIdx.x)) * 4;
    if (kVectors && i + 4 <= count) {
      load_pack<4>(x + i, v[u]);
      inside |= 15u << (4 * u);
    } else {
      THINWIRE_UNROLL
      for (int j = 0; j < 4; ++j) {
        v[u][j] = i + j < count ? x[i + j] : 0.0f;
        inside |= (i + j < count ? 1u : 0u) << (4 * u + j);
      }
    }
  }
  std::uint32_t keep = 0;
  bool bad = false;
  unsigned long long packed = 0;  // how many of each step, 16 bits each: one prefix sum serves all steps
  THINWIRE_UNROLL
  for (int u = 0; u < steps; ++u)
    THINWIRE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t magnitude = magnitude_of(v[u][j]);
      bad = bad || magnitude >= 0x7f800000u;
      const bool take = magnitude >= bound && (inside >> (4 * u + j) & 1) != 0;
      keep |= (take ? 1u : 0u) << (4 * u + j);
      packed += (take ? 1ull : 0ull) << (16 * u);
    }
  if (bad) atomicOr(status, device_status_non_finite);
  unsigned long long total = 0;
  const unsigned long long before = block_prefix<top_threads>(packed, scratch, total);
  std::uint32_t base = 0;
  THINWIRE_UNROLL
  for (int u = 0; u < steps; ++u) {
    std::uint32_t place = base + static_cast<std::uint32_t>(before >> (16 * u) & 0xffff);
    base += static_cast<std::uint32_t>(total >> (16 * u) & 0xffff);
    THINWIRE_UNROLL
    for (int j = 0; j < 4; ++j)
      if ((keep >> (4 * u + j) & 1) != 0) {
        offsets[first + place] = static_cast<std::uint16_t>((u * top_threads + static_cast<int>(threadIdx.x)) * 4 + j);
        values[first + place] = v[u][j];
        ++place;
      }
  }
  if (threadIdx.x != 0) return;
  counts[blockIdx.x] = base;
  if (!again) atomicAdd(&state->collected, base);
}

/// Digit `digit` of the k-th magnitude: the histogram of what was collected; the last block to finish picks the bin.
static __global__ void __launch_bounds__(top_threads) top_histogram(int digit, const std::uint32_t* __restrict__ counts, const float* __restrict__ values,
                                                                    std::int64_t tiles, std::uint32_t kept, TopState* state) {
  __shared__ std::uint32_t histogram[top_bins], is_last;
  const int shift = top_digit_shift(digit), bits = top_digit_bits(digit);
  const std::uint32_t prefix = state->prefix;
  for (int b = static_cast<int>(threadIdx.x); b < top_bins; b += top_threads) histogram[b] = 0;
  __syncthreads();
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::uint32_t count = counts[tile];
    for (std::uint32_t i = threadIdx.x; i < count; i += top_threads) {
      const std::uint32_t magnitude = magnitude_of(values[tile * top_tile + i]);
      if (digit == 0 || magnitude >> (shift + bits) == prefix) atomicAdd(histogram + (magnitude >> shift & ((1u << bits) - 1)), 1u);
    }
  }
  __syncthreads();
  for (int b = static_cast<int>(threadIdx.x); b < top_bins; b += top_threads)
    if (histogram[b] != 0) atomicAdd(state->histogram[digit] + b, histogram[b]);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(state->finished + digit, 1u) == gridDim.x - 1 ? 1 : 0;
  __syncthreads();
  if (is_last == 0) return;
  __threadfence();
  for (int b = static_cast<int>(threadIdx.x); b < top_bins; b += top_threads) histogram[b] = atomicAdd(state->histogram[digit] + b, 0u);  // from L2
  __syncthreads();
  std::uint32_t rank = digit == 0 ? kept : state->rank;
  const std::uint32_t bin = top_pick_bin<top_threads>(histogram, rank);
  if (threadIdx.x == 0) {
    state->prefix = prefix << bits | bin;
    state->rank = rank;
  }
}

/// A warp per tile: places[tile] = (elements above the k-th magnitude) << 32 | elements equal to it.
static __global__ void __launch_bounds__(top_threads) top_count(const std::uint32_t* __restrict__ counts, const float* __restrict__ values,
                                                                std::int64_t tiles, const TopState* state, unsigned long long* places) {
  const std::int64_t tile = (static_cast<std::int64_t>(blockIdx.x) * top_threads + threadIdx.x) / 32;
  if (tile >= tiles) return;
  const std::uint32_t count = counts[tile], threshold = state->prefix;
  unsigned long long found = 0;
  for (std::uint32_t i = threadIdx.x % 32; i < count; i += 32) {
    const std::uint32_t magnitude = magnitude_of(values[tile * top_tile + i]);
    found += magnitude > threshold ? 1ull << 32 : magnitude == threshold ? 1ull : 0ull;
  }
  found = warp_reduce<Sum>(found);
  if (threadIdx.x % 32 == 0) places[tile] = found;
}

/// A warp per tile hands every kept element to `sink(rank in the list, position, value)`, in any order of ranks.
template <typename Sink>
__global__ void __launch_bounds__(top_threads) top_emit(const std::uint32_t* __restrict__ counts, const std::uint16_t* __restrict__ offsets,
                                                        const float* __restrict__ values, std::int64_t tiles, const TopState* state,
                                                        const unsigned long long* __restrict__ places, Sink sink) {
  const std::int64_t tile = (static_cast<std::int64_t>(blockIdx.x) * top_threads + threadIdx.x) / 32;
  if (tile >= tiles) return;
  const std::uint32_t lower_lanes = (1u << threadIdx.x % 32) - 1;
  const std::uint32_t count = counts[tile], threshold = state->prefix, equal_kept = state->rank;
  std::uint32_t equal_before = static_cast<std::uint32_t>(places[tile]);
  std::uint32_t rank = static_cast<std::uint32_t>(places[tile] >> 32) + (equal_before < equal_kept ? equal_before : equal_kept);
  for (std::uint32_t base = 0; base < count; base += 32) {
    const std::uint32_t i = base + threadIdx.x % 32;
    const float value = i < count ? values[tile * top_tile + i] : 0.0f;
    const std::uint32_t magnitude = magnitude_of(value);
    const bool equal = i < count && magnitude == threshold;
    const std::uint32_t equals = __ballot_sync(all_lanes, equal);
    const bool keep = i < count && (magnitude > threshold || (equal && equal_before + static_cast<std::uint32_t>(__popc(equals & lower_lanes)) < equal_kept));
    const std::uint32_t keeps = __ballot_sync(all_lanes, keep);
    if (keep) sink(rank + static_cast<std::uint32_t>(__popc(keeps & lower_lanes)), tile * top_tile + offsets[tile * top_tile + i], value);
    equal_before += static_cast<std::uint32_t>(__popc(equals));
    rank += static_cast<std::uint32_t>(__popc(keeps));
  }
}

/// The parts of a workspace of topk_workspace_bytes(count).
struct TopWorkspace {
  TopState* state;
  float* values;
  unsigned long long* places;
  std::uint32_t* counts;
  std::uint16_t* offsets;
  std::uint32_t* bitmap;  ///< for index_coding_kernels.cuh
  TopWorkspace(void* memory, std::int64_t tiles) {
    auto* p = static_cast<std::uint8_t*>(memory);
    state = reinterpret_cast<TopState*>(p);
    places = reinterpret_cast<unsigned long long*>(p + sizeof(TopState));
    values = reinterpret_cast<float*>(places + tiles);
    counts = reinterpret_cast<std::uint32_t*>(values + tiles * top_tile);
    offsets = reinterpret_cast<std::uint16_t*>(counts + tiles);
    bitmap = reinterpret_cast<std::uint32_t*>(offsets + tiles * top_tile);
  }
};
static_assert(sizeof(TopState) <= topk_state_bytes && sizeof(TopState) % 16 == 0 && top_tile == topk_tile);

/// Queues a whole selection; afterwards top_emit with the same workspace may be launched. 1 <= kept <= count < 2^32.
inline cudaError_t top_select(const float* x, std::int64_t count, std::int64_t kept, const TopWorkspace& w, std::uint32_t* status, void* stream) {
  const std::int64_t tiles = ceil_divide(count, top_tile);
  const auto k = static_cast<std::uint32_t>(kept);
  if (const auto e = cudaMemsetAsync(w.state, 0, sizeof(TopState), static_cast<cudaStream_t>(stream)); e != cudaSuccess) return e;
  // The margin as on the host: four standard deviations of the rank in the sample, doubled because neighbours resemble each other.
  const double expected = static_cast<double>(kept) / static_cast<double>(count) * static_cast<double>(top_sample);
  const double rank = std::ceil(expected + 8 * std::sqrt(expected) + 16);
  if (count >= 4 * top_sample && rank < static_cast<double>(top_sample))
    if (const auto e = launch(top_sampled_bound, 1, 1024, stream, x, count, static_cast<std::uint32_t>(rank), w.state); e != cudaSuccess) return e;
  for (const bool again : {false, true}) {
    const auto e = aligned(x, 16) ? launch(top_collect<true>, tiles, top_threads, stream, x, count, k, again, w.state, w.offsets, w.values, w.counts, status)
                                  : launch(top_collect<false>, tiles, top_threads, stream, x, count, k, again, w.state, w.offsets, w.values, w.counts, status);
    if (e != cudaSuccess) return e;
  }
  for (int digit = 0; digit < top_digits; ++digit)
    if (const auto e = launch(top_histogram, tiles < 1024 ? tiles : 1024, top_threads, stream, digit, w.counts, w.values, tiles, k, w.state); e != cudaSuccess)
      return e;
  if (const auto e = launch(top_count, ceil_divide(tiles, top_threads / 32), top_threads, stream, w.counts, w.values, tiles, w.state, w.places);
      e != cudaSuccess)
    return e;
  return launch(prefix_of_counts<unsigned long long>, 1, prefix_threads, stream, w.places, tiles, static_cast<unsigned long long*>(nullptr));
}

}  // namespace thinwire::cuda
