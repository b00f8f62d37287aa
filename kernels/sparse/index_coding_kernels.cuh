// Positions on the wire, on a device: the CUDA implementation of kernels/sparse/index_coding.cpp, which states the three forms. A kept
// element of rank r in bucket b is bit r + b of the compact form's stream, so writers need not know each other, and a
// reader finds the rank of any bit by a prefix sum of bit counts. The stream may start at any byte; bits are
// collected in aligned words of the workspace and copied.
#pragma once

#include "kernels/cuda/kernel_abi.h"
#include "kernels/sparse/device_sizes.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/sparse/index_layout.h"
#include "kernels/cuda/value_list.cuh"

namespace thinwire::cuda {

constexpr int prefix_threads = 1024;
constexpr int index_threads = 256;
constexpr int index_words = 4;  // of the bit stream per thread
constexpr int index_tile_words = index_threads * index_words;

/// One block: counts[i] becomes the sum of those before it. `total` (or null) gets the sum of all.
template <typename T>
__global__ void __launch_bounds__(prefix_threads) prefix_of_counts(T* counts, std::int64_t n, T* total) {
  __shared__ T scratch[prefix_threads / 32];
  const std::int64_t per_thread = (n + prefix_threads - 1) / prefix_threads;
  const std::int64_t first = threadIdx.x * per_thread, last = first + per_thread < n ? first + per_thread : n;
  T sum = 0, all = 0;
  for (std::int64_t i = first; i < last; ++i) sum = sum + counts[i];
  T before = block_prefix<prefix_threads>(sum, scratch, all);
  for (std::int64_t i = first; i < last; ++i) {
    const T here = counts[i];
    counts[i] = before;
    before = before + here;
  }
  if (total != nullptr && threadIdx.x == 0) *total = all;
}

/// How positions are laid out for one (form, elements, kept).
struct IndexLayout {
  int form = 0;      ///< index_form_compact, _int32, _int64
  int low_bits = 0;  ///< of the compact form; 0: nothing is sent, every element is kept
  std::int64_t elements = 0, kept = 0;
  std::int64_t stream_start = 0, stream_bits = 0;  ///< bytes, bits
  IndexLayout(int form_, std::int64_t elements_, std::int64_t kept_) : form(form_), elements(elements_), kept(kept_) {
    if (form != index_form_compact) return;
    low_bits = compact_low_bits(elements, kept);
    if (low_bits == 0) return;
    stream_start = kept * low_bits / 8;
    stream_bits = kept + index_buckets(elements, low_bits);
  }
  std::int64_t words() const { return ceil_divide(stream_bits, 32); }
};

/// Element of rank `rank` in the list lies at `position`.
__device__ inline void put_index(const IndexLayout& layout, std::int64_t rank, std::int64_t position, std::uint8_t* out, std::uint32_t* bitmap) {
  if (layout.form == index_form_int32) {
    store_u32(out + 4 * rank, static_cast<std::uint32_t>(position));
  } else if (layout.form == index_form_int64) {
    store_u32(out + 8 * rank, static_cast<std::uint32_t>(position));
    store_u32(out + 8 * rank + 4, static_cast<std::uint32_t>(position >> 32));
  } else if (layout.low_bits != 0) {
    if (layout.low_bits == 8) out[rank] = static_cast<std::uint8_t>(position);
    else store_u16(out + 2 * rank, static_cast<std::uint16_t>(position));
    const std::int64_t bit = rank + (position >> layout.low_bits);
    atomicOr(bitmap + bit / 32, 1u << bit % 32);
  }
}

/// A thread per byte of the stream; bits behind the last bucket's end are ones.
static __global__ void __launch_bounds__(index_threads) copy_index_stream(const std::uint32_t* __restrict__ bitmap, std::int64_t bits, std::uint8_t* __restrict__ stream) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * index_threads + threadIdx.x;
  if (8 * i >= bits) return;
  std::uint32_t byte = bitmap[i / 4] >> 8 * (i % 4) & 0xff;
  if (bits - 8 * i < 8) byte |= 0xffu << (bits - 8 * i) & 0xff;
  stream[i] = static_cast<std::uint8_t>(byte);
}

/// Word w of a stream at any byte. Bits from `bits` on read as 0; `padding` becomes false where such bits of the last byte are not ones.
__device__ inline std::uint32_t load_stream_word(const std::uint8_t* stream, std::int64_t bits, std::int64_t w, bool& padding) {
  std::uint32_t word = 0;
  const std::int64_t bytes = (bits + 7) / 8;
  THINWIRE_UNROLL
  for (int j = 0; j < 4; ++j)
    if (4 * w + j < bytes) word |= static_cast<std::uint32_t>(stream[4 * w + j]) << (8 * j);
  const std::int64_t left = bits - 32 * w;
  if (left >= 32) return word;
  if (left <= 0) return 0;
  const std::uint32_t inside = (1u << left) - 1;
  const std::int64_t whole = (left + 7) / 8 * 8;
  const std::uint32_t behind = (whole == 32 ? 0xffffffffu : (1u << whole) - 1) & ~inside;
  padding = (word & behind) == behind;
  return word & inside;
}

/// counts[tile] = ones in the tile of the stream.
static __global__ void __launch_bounds__(index_threads) count_index_bits(const std::uint8_t* __restrict__ stream, std::int64_t bits, std::uint32_t* counts, std::uint32_t* status) {
  __shared__ std::uint32_t scratch[index_threads / 32];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * index_tile_words + threadIdx.x * index_words;
  std::uint32_t ones = 0;
  bool padding = true;
  THINWIRE_UNROLL
  for (int j = 0; j < index_words; ++j) ones += static_cast<std::uint32_t>(__popc(load_stream_word(stream, bits, first + j, padding)));
  if (!padding) atomicOr(status, device_status_damaged);
  ones = block_reduce<Sum, index_threads>(ones, scratch);
  if (threadIdx.x == 0) counts[blockIdx.x] = ones;
}

/// Hands (rank, position) of every element of the compact form to `action`; what no writer writes is reported and left out.
template <typename Action>
__global__ void __launch_bounds__(index_threads) expand_compact_index(const std::uint8_t* __restrict__ bytes, IndexLayout layout,
                                                                      const std::uint32_t* __restrict__ ones_before, const std::uint32_t* __restrict__ total,
                                                                      std::uint32_t* status, Action action) {
  __shared__ std::uint32_t scratch[index_threads / 32];
  const std::uint8_t* stream = bytes + layout.stream_start;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * index_tile_words + threadIdx.x * index_words;
  bool padding = true, damaged = *total != static_cast<std::uint32_t>(layout.kept);
  std::uint32_t words[index_words], ones = 0, tile_ones = 0;
  THINWIRE_UNROLL
  for (int j = 0; j < index_words; ++j) {
    words[j] = load_stream_word(stream, layout.stream_bits, first + j, padding);
    ones += static_cast<std::uint32_t>(__popc(words[j]));
  }
  std::int64_t rank = ones_before[blockIdx.x] + block_prefix<index_threads>(ones, scratch, tile_ones);
  const std::int64_t final_bit = layout.stream_bits - 1;  // the end of the last bucket: a zero
  std::uint32_t previous = first > 0 ? load_stream_word(stream, layout.stream_bits, first - 1, padding) >> 31 : 0;
  THINWIRE_UNROLL
  for (int j = 0; j < index_words; ++j) {
    for (std::uint32_t rest = words[j]; rest != 0; rest &= rest - 1, ++rank) {
      const int bit = __ffs(rest) - 1;
      const std::int64_t at = 32 * (first + j) + bit;
      if (rank >= layout.kept || at == final_bit) {
        damaged = true;
        continue;
      }
      const auto low = [&](std::int64_t r) { return layout.low_bits == 8 ? static_cast<std::uint32_t>(bytes[r]) : load_u16(bytes + 2 * r); };
      const std::uint32_t here = low(rank);
      const std::int64_t position = (at - rank) << layout.low_bits | here;
      const bool same_bucket = bit > 0 ? (words[j] >> (bit - 1) & 1) != 0 : previous != 0;
      if (position >= layout.elements || (same_bucket && rank > 0 && low(rank - 1) >= here)) damaged = true;
      else action(rank, position, status);
    }
    previous = words[j] >> 31;
  }
  if (damaged) atomicOr(status, device_status_damaged);
}

/// The same for flat positions, and for `compact` where every element is kept.
template <typename Action>
__global__ void __launch_bounds__(index_threads) expand_flat_index(const std::uint8_t* __restrict__ bytes, IndexLayout layout, std::uint32_t* status, Action action) {
  const std::int64_t rank = static_cast<std::int64_t>(blockIdx.x) * index_threads + threadIdx.x;
  if (rank >= layout.kept) return;
  const auto flat = [&](std::int64_t r) {
    if (layout.form == index_form_compact) return r;
    if (layout.form == index_form_int32) return static_cast<std::int64_t>(load_u32(bytes + 4 * r));
    return static_cast<std::int64_t>(load_u32(bytes + 8 * r) | static_cast<std::uint64_t>(load_u32(bytes + 8 * r + 4)) << 32);
  };
  const std::int64_t position = flat(rank);
  if (position < 0 || position >= layout.elements || (rank > 0 && flat(rank - 1) >= position)) atomicOr(status, device_status_damaged);
  else action(rank, position, status);
}

/// Queues the expansion of `index`. `workspace`: sparse_workspace_bytes(elements, kept).
template <typename Action>
cudaError_t expand_index(const void* index, const IndexLayout& layout, void* workspace, std::uint32_t* status, const Action& action, void* stream) {
  const auto* bytes = static_cast<const std::uint8_t*>(index);
  if (layout.form != index_form_compact || layout.low_bits == 0)
    return launch(expand_flat_index<Action>, ceil_divide(layout.kept, index_threads), index_threads, stream, bytes, layout, status, action);
  auto* total = static_cast<std::uint32_t*>(workspace);
  std::uint32_t* counts = total + 4;
  const std::int64_t tiles = ceil_divide(layout.words(), index_tile_words);
  if (const auto e = launch(count_index_bits, tiles, index_threads, stream, bytes + layout.stream_start, layout.stream_bits, counts, status); e != cudaSuccess)
    return e;
  if (const auto e = launch(prefix_of_counts<std::uint32_t>, 1, prefix_threads, stream, counts, tiles, total); e != cudaSuccess) return e;
  return launch(expand_compact_index<Action>, tiles, index_threads, stream, bytes, layout, counts, total, status, action);
}

/// out[position] = factor * list[rank], or += with kAdd.
template <bool kAdd>
struct ScatterAction {
  ValueList list;
  float factor;
  float* out;
  __device__ void operator()(std::int64_t rank, std::int64_t position, std::uint32_t* status) const {
    bool fine = true;
    const float value = multiply(list.load(rank, fine), factor);
    if (!fine) atomicOr(status, device_status_damaged);
    out[position] = kAdd ? add(out[position], value) : value;
  }
};

/// list[rank] = factor * x[position].
struct GatherAction {
  ValueList list;
  float factor;
  const float* x;
  __device__ void operator()(std::int64_t rank, std::int64_t position, std::uint32_t* status) const {
    list.store(rank, multiply(x[position], factor), status);
  }
};

}  // namespace thinwire::cuda
