// Positions drawn one after the other without repetition, on a device: the sampler of randomk's released form (kernels/codec/codecs/sparse/randomk.cpp).
// Number i of the generator proposes a position, which is taken unless it was taken before. Numbers do not depend on each other, only
// the taking is a sequence: so one block proposes 1024 at a time and takes, in their order, those that are new. No host memory and no
// upload stand between, and nothing waits. Bound: a few microseconds per 1024 proposals; the moves of values, 8 bytes per kept element each way.
#pragma once

#include "core/random.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/value_list.cuh"

namespace thinwire::cuda {

constexpr int draw_threads = 1024;

/// drawn[0 .. kept) in the order drawn. `seen`: a bit per element, all zero.
static __global__ void __launch_bounds__(draw_threads) draw_in_order(std::uint64_t seed, std::uint64_t stream, std::int64_t elements, std::int64_t kept,
                                                                     std::uint32_t* seen, std::uint32_t* drawn) {
  __shared__ std::uint32_t scratch[draw_threads / 32], repeated[draw_threads], lowest[draw_threads], repeats;
  const Random random(seed, stream);
  const auto bound = static_cast<std::uint64_t>(elements);
  std::int64_t taken = 0;
  for (std::uint64_t number = threadIdx.x; taken < kept; number += draw_threads) {
    const std::uint64_t w = random.bits64(number);  // Random::below for a bound of 32 bits
    const auto position = static_cast<std::uint32_t>(((w >> 32) * bound + ((w & 0xffffffffu) * bound >> 32)) >> 32);
    const std::uint32_t bit = 1u << position % 32;
    bool fresh = (seen[position / 32] & bit) == 0;
    lowest[threadIdx.x] = draw_threads;
    if (threadIdx.x == 0) repeats = 0;
    __syncthreads();  // everybody has looked before anybody marks
    if (fresh && (atomicOr(seen + position / 32, bit) & bit) != 0) repeated[atomicAdd(&repeats, 1u)] = position;
    __syncthreads();
    // Proposed more than once among these 1024: the lowest number has it.
    const std::uint32_t entries = repeats;
    for (std::uint32_t e = 0; e < entries; ++e)
      if (fresh && repeated[e] == position) atomicMin(lowest + e, threadIdx.x);
    __syncthreads();
    for (std::uint32_t e = 0; e < entries; ++e)
      if (fresh && repeated[e] == position && lowest[e] != threadIdx.x) fresh = false;
    std::uint32_t total = 0;
    const std::int64_t rank = taken + block_prefix<draw_threads>(fresh ? 1u : 0u, scratch, total);
    if (fresh && rank < kept) drawn[rank] = position;
    taken += total;
  }
}

/// list[i] = factor * x at the i-th position drawn, which goes to `index` (8 bytes each, any address) unless that is null.
struct TakeDrawn {
  static constexpr int width = 1;
  const std::uint32_t* drawn;
  const float* x;
  float factor;
  ValueList list;
  std::uint8_t* index;
  std::uint32_t* status;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    const std::uint32_t position = drawn[i];
    list.store(i, multiply(x[position], factor), status);
    if (index == nullptr) return;
    store_u32(index + 8 * i, position);
    store_u32(index + 8 * i + 4, 0);
  }
};

/// list[i] = x and out = factor * list[i] at the i-th position drawn: the masked rule, as the host without a look at the numbers.
struct GatherDrawn {
  static constexpr int width = 1;
  const std::uint32_t* drawn;
  const float* x;
  float* list;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    list[i] = x[drawn[i]];
  }
};
struct ScatterDrawn {
  static constexpr int width = 1;
  const std::uint32_t* drawn;
  const float* list;
  float factor;
  float* out;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    out[drawn[i]] = multiply(factor, list[i]);
  }
};

/// out = list[i], or +=, at the i-th position of `index`, which is not trusted. A position outside, or one that comes twice (the host's sum
/// or last value would depend on an order that threads do not have), is reported and left out. `seen`: a bit per element, all zero.
struct PutReceived {
  static constexpr int width = 1;
  const std::uint8_t* index;
  ValueList list;
  std::int64_t elements;
  float* out;
  bool add_to;
  std::uint32_t *seen, *status;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    const std::uint32_t low = load_u32(index + 8 * i), high = load_u32(index + 8 * i + 4), bit = 1u << low % 32;
    bool fine = true;
    const float value = list.load(i, fine);
    if (high != 0 || low >= elements || !fine || (atomicOr(seen + low / 32, bit) & bit) != 0) {
      atomicOr(status, device_status_damaged);
      return;
    }
    out[low] = add_to ? add(out[low], value) : value;
  }
};

}  // namespace thinwire::cuda
