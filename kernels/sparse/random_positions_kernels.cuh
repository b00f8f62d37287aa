// The positions of kernels/sparse/random_positions.cpp on a device: a block of threads draws those of one block of 65536
// elements into a bitmap in shared memory. Draws mark bits, and which bits are marked does not depend on the order
// of marking, so the threads draw side by side what the host draws one after the other.
#pragma once

#include "core/random.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/value_list.cuh"

namespace thinwire::cuda {

constexpr int random_threads = 512;
constexpr std::int64_t random_block = 1 << 16;
constexpr int random_words = static_cast<int>(random_block / 32);

struct RandomSelection {
  std::uint64_t seed, stream;
  std::uint64_t elements, kept, phase;
  /// floor((kept * position + phase) / elements): fits 64 bits as elements < 2^32.
  __device__ std::int64_t start(std::int64_t block) const {
    const auto position = static_cast<std::uint64_t>(block * random_block);
    return static_cast<std::int64_t>((kept * (position < elements ? position : elements) + phase) / elements);
  }
};

/// The bitmap of the kept elements of a block; all threads see it on return.
__device__ inline void draw_positions(const RandomSelection& s, std::int64_t block, std::uint32_t* map, std::uint32_t* fresh) {
  const std::int64_t left = static_cast<std::int64_t>(s.elements) - block * random_block;
  const std::int64_t length = left < random_block ? left : random_block;
  const std::int64_t count = s.start(block + 1) - s.start(block);
  const bool complement = count > length / 2;  // then those left out are marked
  const std::int64_t marks = complement ? length - count : count;
  for (int w = static_cast<int>(threadIdx.x); w < random_words; w += random_threads) map[w] = 0;
  const Random random(s.seed, mix_stream(s.stream, static_cast<std::uint64_t>(block) + 1));
  const bool full = length == random_block;
  const std::int64_t per_draw = full ? 8 : 4;  // offsets from four words
  std::int64_t draw = 0;
  for (std::int64_t missing = marks; missing > 0;) {
    __syncthreads();
    if (threadIdx.x == 0) *fresh = 0;
    __syncthreads();
    const std::int64_t draws = (missing + per_draw - 1) / per_draw;
    std::uint32_t own = 0;
    for (std::int64_t d = threadIdx.x; d < draws; d += random_threads) {
      const auto bits = random.block(static_cast<std::uint64_t>(draw + d));
      THINWIRE_UNROLL
      for (int j = 0; j < 8; ++j) {
        if (j >= per_draw || d * per_draw + j >= missing) continue;
        const std::uint32_t word = bits[static_cast<std::size_t>(full ? j / 2 : j % 4)];
        const std::uint32_t offset = full ? (j % 2 == 0 ? word & 0xffffu : word >> 16)
                                          : static_cast<std::uint32_t>(std::uint64_t{word} * static_cast<std::uint64_t>(length) >> 32);
        const std::uint32_t bit = 1u << offset % 32;
        own += (atomicOr(map + offset / 32, bit) & bit) == 0 ? 1 : 0;
      }
    }
    if (own != 0) atomicAdd(fresh, own);
    __syncthreads();
    missing -= *fresh;
    draw += draws;
  }
  __syncthreads();
  if (!complement) return;
  for (int w = static_cast<int>(threadIdx.x); w < random_words; w += random_threads) {
    const std::int64_t here = length - 32 * w;
    map[w] = here <= 0 ? 0 : ~map[w] & (here >= 32 ? 0xffffffffu : (1u << here) - 1);
  }
  __syncthreads();
}

/// Hands (rank in the list, position) of the kept elements of block blockIdx.x to `action`, after `action.before(first, length)`.
template <typename Action>
__global__ void __launch_bounds__(random_threads) random_expand(RandomSelection selection, std::uint32_t* status, Action action) {
  __shared__ std::uint32_t map[random_words], scratch[random_threads / 32], fresh;
  constexpr int words = random_words / random_threads;
  const std::int64_t block = blockIdx.x, first = block * random_block;
  const std::int64_t left = static_cast<std::int64_t>(selection.elements) - first;
  action.before(first, left < random_block ? left : random_block, status);
  draw_positions(selection, block, map, &fresh);
  std::uint32_t ones = 0, total = 0;
  THINWIRE_UNROLL
  for (int w = 0; w < words; ++w) ones += static_cast<std::uint32_t>(__popc(map[threadIdx.x * words + w]));
  std::int64_t rank = selection.start(block) + block_prefix<random_threads>(ones, scratch, total);
  for (int w = 0; w < words; ++w)
    for (std::uint32_t rest = map[threadIdx.x * words + w]; rest != 0; rest &= rest - 1, ++rank)
      action(rank, first + (threadIdx.x * words + w) * 32 + __ffs(rest) - 1, status);
}

/// list[rank] = factor * x[position].
struct RandomGather {
  ValueList list;
  float factor;
  const float* x;
  bool scan, vectors;
  __device__ void before(std::int64_t first, std::int64_t length, std::uint32_t* status) const {
    if (!scan) return;
    bool bad = false;
    std::int64_t done = 0;
    if (vectors) {
      for (std::int64_t i = 4 * threadIdx.x; i + 4 <= length; i += 4 * random_threads) {
        float v[4];
        load_pack<4>(x + first + i, v);
        THINWIRE_UNROLL
        for (int j = 0; j < 4; ++j) bad = bad || !finite_bits(bits_of(v[j]));
      }
      done = length / 4 * 4;
    }
    for (std::int64_t i = done + threadIdx.x; i < length; i += random_threads) bad = bad || !finite_bits(bits_of(x[first + i]));
    if (bad) atomicOr(status, device_status_non_finite);
  }
  __device__ void operator()(std::int64_t rank, std::int64_t position, std::uint32_t* status) const {
    list.store(rank, multiply(x[position], factor), status);
  }
};

/// out[position] = factor * list[rank] and 0 elsewhere, or += with kAdd.
template <bool kAdd>
struct RandomScatter {
  ValueList list;
  float factor;
  float* out;
  bool vectors;
  __device__ void before(std::int64_t first, std::int64_t length, std::uint32_t*) const {
    if (kAdd) return;
    std::int64_t done = 0;
    if (vectors) {
      constexpr float zeros[4] = {};
      for (std::int64_t i = 4 * threadIdx.x; i + 4 <= length; i += 4 * random_threads) store_pack<4>(out + first + i, zeros);
      done = length / 4 * 4;
    }
    for (std::int64_t i = done + threadIdx.x; i < length; i += random_threads) out[first + i] = 0;
  }
  __device__ void operator()(std::int64_t rank, std::int64_t position, std::uint32_t* status) const {
    bool fine = true;
    const float value = multiply(list.load(rank, fine), factor);
    if (!fine) atomicOr(status, device_status_damaged);
    out[position] = kAdd ? add(out[position], value) : value;
  }
};

}  // namespace thinwire::cuda
