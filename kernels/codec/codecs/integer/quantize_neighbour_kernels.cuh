// Codes of `quantize` on a device in neighbour packing: one stream of bits over the flattened message (kernels/codec/payload/bit_stream.h). A thread
// per group of eight codes, which fill `bits` bytes; a block collects its groups' bytes in shared memory and moves them 16 at a time where
// the stream lies on 16 bytes. Bound: as chunk packing, 4 bytes of f32 and bits / 8 of codes per element and pass.
// kVectors: groups lie inside rows (columns % 8 == 0) and everything on 16 bytes; without it any shape and address.
#pragma once

#include "kernels/codec/codecs/integer/quantize_kernels.cuh"

namespace thinwire::cuda {

constexpr int group_codes = 8;

/// Bytes of the stream that a block of quantize_threads groups owns: from `first` on, `count` of them.
struct StreamPart {
  std::int64_t first, count;
  __device__ StreamPart(std::int64_t elements, int bits) {
    const std::int64_t whole = quantize_threads * static_cast<std::int64_t>(bits), all = (elements * bits + 7) / 8;
    first = blockIdx.x * whole;
    count = all - first < whole ? all - first : whole;
  }
};

template <bool kVectors>
__global__ void __launch_bounds__(quantize_threads) quantize_encode_groups(const float* __restrict__ x, std::int64_t elements, std::int64_t columns, int bits,
                                                                           bool half_arithmetic, const float* __restrict__ divisor,
                                                                           std::uint8_t* __restrict__ codes, bool wide) {
  __shared__ uint4 staged[quantize_threads * group_codes / 16];
  auto* bytes = reinterpret_cast<std::uint8_t*>(staged);
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * quantize_threads + threadIdx.x) * group_codes;
  if (first < elements) {
    float v[group_codes] = {}, by[group_codes] = {};
    std::int64_t c = first % columns;
    if constexpr (kVectors) {
      load_pack<group_codes>(x + first, v);
      load_pack<group_codes>(divisor + c, by);
    } else {
      THINWIRE_UNROLL
      for (int j = 0; j < group_codes; ++j) {
        if (first + j < elements) v[j] = x[first + j], by[j] = divisor[c];
        c = c + 1 == columns ? 0 : c + 1;
      }
    }
    const auto half = static_cast<float>(1 << (bits - 1));
    std::uint32_t upper = 0, lower = 0;  // four codes each, the first in the highest bits
    THINWIRE_UNROLL
    for (int j = 0; j < group_codes; ++j) {
      const std::uint32_t code = kVectors || first + j < elements ? quantize_code(v[j], by[j], half, half_arithmetic) : 0;  // zeros fill the last byte
      std::uint32_t& word = j < 4 ? upper : lower;
      word = word << bits | code;
    }
    const std::uint64_t group = static_cast<std::uint64_t>(upper) << 4 * bits | lower;
    for (int b = 0; b < bits; ++b) bytes[threadIdx.x * static_cast<unsigned>(bits) + static_cast<unsigned>(b)] = static_cast<std::uint8_t>(group >> 8 * (bits - 1 - b));
  }
  __syncthreads();
  const StreamPart part(elements, bits);
  const int vectors = wide ? static_cast<int>(part.count / 16) : 0;
  for (int i = static_cast<int>(threadIdx.x); i < vectors; i += quantize_threads) reinterpret_cast<uint4*>(codes + part.first)[i] = staged[i];
  for (int i = 16 * vectors + static_cast<int>(threadIdx.x); i < part.count; i += quantize_threads) codes[part.first + i] = bytes[i];
}

template <bool kVectors>
__global__ void __launch_bounds__(quantize_threads) quantize_decode_groups(const std::uint8_t* __restrict__ payload, std::int64_t elements, std::int64_t columns,
                                                                           int bits, bool half_arithmetic, bool add_to, bool wide, float* __restrict__ out,
                                                                           std::uint32_t* status) {
  __shared__ uint4 staged[quantize_threads * group_codes / 16];
  auto* bytes = reinterpret_cast<std::uint8_t*>(staged);
  const std::uint8_t* codes = payload + 2 * columns;
  const StreamPart part(elements, bits);
  const int vectors = wide ? static_cast<int>(part.count / 16) : 0;
  for (int i = static_cast<int>(threadIdx.x); i < vectors; i += quantize_threads) staged[i] = reinterpret_cast<const uint4*>(codes + part.first)[i];
  for (int i = 16 * vectors + static_cast<int>(threadIdx.x); i < part.count; i += quantize_threads) bytes[i] = codes[part.first + i];
  __syncthreads();
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * quantize_threads + threadIdx.x) * group_codes;
  if (first >= elements) return;
  std::uint64_t group = 0;
  for (int b = 0; b < bits; ++b) {
    const int at = static_cast<int>(threadIdx.x) * bits + b;
    group = group << 8 | (at < part.count ? bytes[at] : 0u);  // a last group of fewer codes has fewer bytes
  }
  const int middle = 1 << (bits - 1);
  const auto mask = static_cast<std::uint32_t>(2 * middle - 1);
  const auto upper = static_cast<std::uint32_t>(group >> 4 * bits), lower = static_cast<std::uint32_t>(group);
  std::int64_t c = first % columns;
  float v[group_codes] = {};
  if constexpr (kVectors) {
    const uint4 q = *reinterpret_cast<const uint4*>(payload + 2 * c);
    const std::uint32_t scales[4] = {q.x, q.y, q.z, q.w};
    if (add_to) load_pack<group_codes>(out + first, v);
    THINWIRE_UNROLL
    for (int j = 0; j < group_codes; ++j) {
      const std::uint32_t code = (j < 4 ? upper : lower) >> bits * (3 - j % 4) & mask;
      const float step = quantize_step(static_cast<std::uint16_t>(scales[j / 2] >> 16 * (j % 2)), middle, status);
      const float value = quantize_value(code, middle, step, half_arithmetic);
      v[j] = add_to ? add(v[j], value) : value;
    }
    store_pack<group_codes>(out + first, v);
  } else {
    THINWIRE_UNROLL
    for (int j = 0; j < group_codes; ++j) {
      if (first + j >= elements) continue;
      const std::uint32_t code = (j < 4 ? upper : lower) >> bits * (3 - j % 4) & mask;
      const float value = quantize_value(code, middle, quantize_step(load_u16(payload + 2 * c), middle, status), half_arithmetic);
      out[first + j] = add_to ? add(out[first + j], value) : value;
      c = c + 1 == columns ? 0 : c + 1;
    }
  }
}

}  // namespace thinwire::cuda
