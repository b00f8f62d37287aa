// Codes with a scale per block of neighbours on a device, whatever the codec. A team of threads works on a block, each thread on eight neighbours at a time, whose
// codes fill as many whole bytes as a code has bits. The maths stands in the codecs' .cpp, the layout of payloads in block_cut.h. A codec brings a format:
//   using Found                              what a scale depends on: Magnitude, Range or Nothing (kernels/cuda/extremes.cuh)
//   using Scale                              what codes are made of, and values of codes
//   static constexpr int bits                of a code; 0: the cut says it
//   Scale scale_of(found, place, payload, writes, status)    and writes it, where this thread is the one to do so
//   void codes_of(v, scale, element, codes)                  of eight values, the first of them that element of the tensor
//   Scale read_scale(payload, place, status)
//   bool values_of(codes, scale, v)                          false for a code that is never written
//   bool low_first() const                   of the codes in a byte the first is in the lowest bits, else in the highest
// Bound: encode reads 4 bytes per element and writes bits / 8 and the scales, decode does the reverse (adding reads 4 more). What a thread has in its registers from
// the search for the scale is not read again: blocks of up to 2048 elements; of longer ones the rest comes out of the caches.
#pragma once

#include "kernels/codec/codecs/block/block_cut.h"
#include "kernels/cuda/extremes.cuh"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/launch.cuh"

namespace thinwire::cuda {

constexpr int block_threads = 256, eight = 8;

/// How a cut is worked on: teams of `team` threads, a power of two, each with a unit: a block, or a piece of a row that is one.
struct BlockWork {
  explicit BlockWork(const BlockCut& of)
      : cut(of), unit(of.block <= longest_device_block ? of.block : longest_device_block / 2), units_of_row(ceil_divide(of.columns, unit)), units(of.rows * units_of_row), team(1) {
    while (team < block_threads && eight * team < unit) team *= 2;
  }
  std::int64_t grid() const { return ceil_divide(units * team, block_threads); }
  /// Whether units are blocks: else scales come from elsewhere.
  bool whole_blocks() const { return unit == cut.block; }

  BlockCut cut;
  std::int64_t unit, units_of_row, units;
  int team;
};

/// Where a unit lies. Without elements: behind the last.
struct BlockPlace {
  std::int64_t row = 0, from = 0, count = 0;
  std::int64_t element = 0;  ///< of the tensor
  std::int64_t scale = 0;    ///< number of its scale
  __device__ explicit BlockPlace(const BlockWork& work) {
    const std::int64_t number = (static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x) / work.team;
    if (number >= work.units) return;
    // Division of 64 bits takes several times as long as the rest of an address.
    if ((static_cast<std::uint64_t>(number | work.units_of_row) >> 32) == 0)
      row = static_cast<std::uint32_t>(number) / static_cast<std::uint32_t>(work.units_of_row);
    else
      row = number / work.units_of_row;
    from = (number - row * work.units_of_row) * work.unit;
    count = work.cut.columns - from < work.unit ? work.cut.columns - from : work.unit;
    element = row * work.cut.columns + from;
    scale = work.cut.blocks_of_row == 1 ? row : number;
  }
};

/// v = x[0 .. left), of eight at most; what is missing is 0.
template <bool kVectors>
__device__ inline void load_eight(const float* x, std::int64_t left, float (&v)[eight]) {
  if (kVectors && left >= eight) return load_pack<eight>(x, v);
  THINWIRE_UNROLL
  for (int j = 0; j < eight; ++j) v[j] = j < left ? x[j] : 0.0f;
}

__device__ inline std::uint32_t reversed_bytes(std::uint32_t v) { return v >> 24 | (v >> 8 & 0xff00u) | (v << 8 & 0xff0000u) | v << 24; }
__device__ inline std::uint64_t reversed_bytes(std::uint64_t v) {
  return static_cast<std::uint64_t>(reversed_bytes(static_cast<std::uint32_t>(v))) << 32 | reversed_bytes(static_cast<std::uint32_t>(v >> 32));
}
__device__ inline std::uint32_t swapped_nibbles(std::uint32_t v) { return (v & 0x0f0f0f0fu) << 4 | (v >> 4 & 0x0f0f0f0fu); }

/// Eight codes as the bytes that they fill, the first byte lowest.
template <int kBits>
__device__ inline std::uint64_t joined(const std::uint32_t (&codes)[eight], int bits, bool low_first) {
  std::uint32_t first = 0, second = 0;
  if constexpr (kBits == 8 || kBits == 4) {
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) (kBits == 8 && j >= 4 ? second : first) |= codes[j] << kBits * (kBits == 8 ? j % 4 : j);
    if (kBits == 4 && !low_first) first = swapped_nibbles(first);
    return static_cast<std::uint64_t>(second) << 32 | first;
  } else {
    THINWIRE_UNROLL
    for (int j = 0; j < 4; ++j) first = first << bits | codes[j], second = second << bits | codes[j + 4];
    return reversed_bytes((static_cast<std::uint64_t>(first) << 4 * bits | second) << (64 - 8 * bits));
  }
}
template <int kBits>
__device__ inline void split(std::uint64_t word, int bits, bool low_first, std::uint32_t (&codes)[eight]) {
  if constexpr (kBits == 8 || kBits == 4) {
    std::uint32_t first = static_cast<std::uint32_t>(word);
    const auto second = static_cast<std::uint32_t>(word >> 32);
    if (kBits == 4 && !low_first) first = swapped_nibbles(first);
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) codes[j] = (kBits == 8 && j >= 4 ? second : first) >> kBits * (kBits == 8 ? j % 4 : j) & ((1u << kBits) - 1);
  } else {
    const std::uint64_t stream = reversed_bytes(word) >> (64 - 8 * bits);
    const auto first = static_cast<std::uint32_t>(stream >> 4 * bits), second = static_cast<std::uint32_t>(stream);
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) codes[j] = (j < 4 ? first : second) >> bits * (3 - j % 4) & ((1u << bits) - 1);
  }
}

/// Moves `bytes` bytes, of eight codes or of the last fewer; in words where kVectors says that addresses are multiples of 4.
template <int kBits, bool kVectors>
__device__ inline void store_bytes(std::uint8_t* to, std::uint64_t word, int bytes) {
  if constexpr (kVectors && (kBits == 8 || kBits == 4))
    if (bytes == kBits) {
      auto* const words = reinterpret_cast<std::uint32_t*>(to);
      words[0] = static_cast<std::uint32_t>(word);
      if (kBits == 8) words[1] = static_cast<std::uint32_t>(word >> 32);
      return;
    }
  for (int b = 0; b < bytes; ++b) to[b] = static_cast<std::uint8_t>(word >> 8 * b);
}
template <int kBits, bool kVectors>
__device__ inline std::uint64_t load_bytes(const std::uint8_t* from, int bytes) {
  if constexpr (kVectors && (kBits == 8 || kBits == 4))
    if (bytes == kBits) {
      const auto* const words = reinterpret_cast<const std::uint32_t*>(from);
      return kBits == 8 ? static_cast<std::uint64_t>(words[1]) << 32 | words[0] : words[0];
    }
  std::uint64_t word = 0;
  for (int b = 0; b < bytes; ++b) word |= static_cast<std::uint64_t>(from[b]) << 8 * b;
  return word;
}

template <typename Format, bool kVectors>
__global__ void __launch_bounds__(block_threads) encode_blocks(const float* __restrict__ x, BlockWork work, Format format, std::uint8_t* __restrict__ payload,
                                                               std::uint32_t* status) {
  __shared__ typename Format::Found of_warps[block_threads / 32];
  const BlockPlace place(work);
  const int bits = Format::bits > 0 ? Format::bits : static_cast<int>(work.cut.bits);
  const std::int64_t begin = threadIdx.x % static_cast<unsigned>(work.team) * eight, step = static_cast<std::int64_t>(work.team) * eight;
  float first[eight];
  load_eight<kVectors>(x + place.element + begin, place.count - begin, first);
  auto found = Format::Found::none();
  see_all(first, place.count - begin, found);
  for (std::int64_t at = begin + step; at < place.count; at += step) {
    float v[eight];
    load_eight<kVectors>(x + place.element + at, place.count - at, v);
    see_all(v, place.count - at, found);
  }
  if (!found.finite()) atomicOr(status, device_status_non_finite);
  found = found_by_team(found, work.team, of_warps);
  if (place.count == 0) return;
  const typename Format::Scale scale = format.scale_of(found, place, payload, begin == 0, status);
  for (std::int64_t at = begin; at < place.count; at += step) {
    const std::int64_t left = place.count - at;
    if (at != begin) load_eight<kVectors>(x + place.element + at, left, first);
    std::uint32_t codes[eight];
    format.codes_of(first, scale, place.element + at, codes);
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) codes[j] = j < left ? codes[j] : 0u;  // zeros fill the last byte
    const int bytes = left >= eight ? bits : (static_cast<int>(left) * bits + 7) / 8;
    store_bytes<Format::bits, kVectors>(payload + work.cut.code_at(place.row, place.from + at), joined<Format::bits>(codes, bits, format.low_first()), bytes);
  }
}

template <typename Format, bool kVectors>
__global__ void __launch_bounds__(block_threads) decode_blocks(const std::uint8_t* __restrict__ payload, BlockWork work, Format format, bool adds, float* __restrict__ out,
                                                               std::uint32_t* status) {
  const BlockPlace place(work);
  if (place.count == 0) return;
  const int bits = Format::bits > 0 ? Format::bits : static_cast<int>(work.cut.bits);
  const std::int64_t begin = threadIdx.x % static_cast<unsigned>(work.team) * eight, step = static_cast<std::int64_t>(work.team) * eight;
  const typename Format::Scale scale = format.read_scale(payload, place, status);
  bool good = true;
  for (std::int64_t at = begin; at < place.count; at += step) {
    const std::int64_t left = place.count - at;
    const int bytes = left >= eight ? bits : (static_cast<int>(left) * bits + 7) / 8;
    std::uint32_t codes[eight];
    split<Format::bits>(load_bytes<Format::bits, kVectors>(payload + work.cut.code_at(place.row, place.from + at), bytes), bits, format.low_first(), codes);
    float v[eight];
    good = format.values_of(codes, scale, v) && good;
    float* const to = out + place.element + at;
    if (adds) {
      float before[eight];
      load_eight<kVectors>(to, left, before);
      THINWIRE_UNROLL
      for (int j = 0; j < eight; ++j) v[j] = add(before[j], v[j]);
    }
    if (kVectors && left >= eight) {
      store_pack<eight>(to, v);
    } else {
      THINWIRE_UNROLL
      for (int j = 0; j < eight; ++j)
        if (j < left) to[j] = v[j];
    }
  }
  if (!good) atomicOr(status, device_status_damaged);
}

/// Whether every row's eights lie on 16 bytes of f32, and their codes on 4 where they are moved in words.
template <typename Format>
bool block_vectors(const void* values, const std::uint8_t* payload, const BlockCut& cut) {
  const bool words = Format::bits == 8 || Format::bits == 4;
  return aligned(values, 16) && (!words || aligned(payload + cut.codes_at, 4)) && (cut.rows <= 1 || (cut.columns % 4 == 0 && (!words || cut.bytes_of_row % 4 == 0)));
}

template <typename Format>
cudaError_t queue_encode_blocks(const float* x, const BlockCut& cut, const Format& format, std::uint8_t* payload, std::uint32_t* status, void* stream) {
  const BlockWork work(cut);
  const auto kernel = block_vectors<Format>(x, payload, cut) ? encode_blocks<Format, true> : encode_blocks<Format, false>;
  return launch(kernel, work.grid(), block_threads, stream, x, work, format, payload, status);
}
template <typename Format>
cudaError_t queue_decode_blocks(const std::uint8_t* payload, const BlockCut& cut, const Format& format, bool adds, float* out, std::uint32_t* status, void* stream) {
  const BlockWork work(cut);
  const auto kernel = block_vectors<Format>(out, payload, cut) ? decode_blocks<Format, true> : decode_blocks<Format, false>;
  return launch(kernel, work.grid(), block_threads, stream, payload, work, format, adds, out, status);
}

}  // namespace thinwire::cuda
