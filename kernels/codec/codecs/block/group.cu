// CUDA implementation of group.cpp: the same bytes, on a stream. The draws of stochastic rounding are the host's numbers.
#include <limits>

#include "core/random.h"
#include "kernels/codec/codecs/block/block_kernels.cuh"
#include "kernels/codec/codecs/block/group.h"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_group_encode, int(const float* x, BlockCut cut, GroupOptions options, std::uint64_t random_stream, void* payload, std::uint32_t* status,
                                                    int ordinal, void* stream));
THINWIRE_CUDA_ENTRY(thinwire_cuda_group_decode, int(const void* payload, BlockCut cut, GroupOptions options, float* out, int adds, std::uint32_t* status, int ordinal,
                                                    void* stream));

namespace {

constexpr float largest_float = std::numeric_limits<float>::max();

__device__ inline float magnitude_of(float v) { return float_of(bits_of(v) & 0x7fffffffu); }

/// Draws of elements first, first + 1, ...: each block of the generator has eight, of 16 bits.
__device__ inline void draws_of_eight(std::uint64_t stream, std::int64_t first, std::uint32_t (&draws)[eight]) {
  const Random random(group_draws_seed, stream);
  const auto block = static_cast<std::uint64_t>(first / eight);
  const auto begin = static_cast<unsigned>(first % eight);
  const auto here = random.block(block);
  std::uint32_t words[eight] = {here[0], here[1], here[2], here[3]};
  if (begin != 0) {
    const auto next = random.block(block + 1);
    words[4] = next[0], words[5] = next[1], words[6] = next[2], words[7] = next[3];
    // Shifts by constants keep the words in registers.
    THINWIRE_UNROLL
    for (int j = 0; j < 6; ++j) words[j] = (begin & 4u) != 0 ? words[j + 2] : words[j];
    THINWIRE_UNROLL
    for (int j = 0; j < 5; ++j) words[j] = (begin & 2u) != 0 ? words[j + 1] : words[j];
    THINWIRE_UNROLL
    for (int j = 0; j < 4; ++j) words[j] = (begin & 1u) != 0 ? words[j] >> 16 | words[j + 1] << 16 : words[j];
  }
  THINWIRE_UNROLL
  for (int j = 0; j < eight; ++j) draws[j] = words[j / 2] >> 16 * (j % 2) & 0xffffu;
}

struct GroupScale {
  float step, offset, factor;
};

template <int kBits>
struct GroupFormat {
  using Found = Range;
  using Scale = GroupScale;
  static constexpr int bits = kBits;

  GroupOptions options;
  BlockCut cut;
  std::uint64_t random_stream;

  __device__ bool low_first() const { return options.low_first; }

  /// Before rounding to the type that travels; group.cpp has the formulas.
  __device__ Scale wanted(float least, float largest) const {
    Scale scale = wanted_at_best(least, largest);
    const float step = options.scale == DType::f16 ? step_for_half_bits(scale.step) : scale.step;
    if (step == scale.step) return scale;
    scale.step = step;
    if (options.range == GroupRange::minmax) scale.offset = add(least, multiply(options.levels() / 2, step));
    return scale;
  }
  /// core/half.h, step_for_half.
  static __device__ float step_for_half_bits(float step) {
    const float size = magnitude_of(step);
    if (!(size < 0x1p-14f)) return step;
    const float units = multiply(ceilf(multiply(size, 0x1p24f)), 0x1p-24f);
    return step < 0 ? -units : units;
  }
  __device__ Scale wanted_at_best(float least, float largest) const {
    const float levels = options.levels(), most = fmaxf(magnitude_of(least), magnitude_of(largest));
    const float half_range = add(multiply(0.5f, largest), -multiply(0.5f, least));
    switch (options.range) {
      case GroupRange::symmetric: return {divide(most, levels / 2 - 1), 0, 0};
      case GroupRange::full: return {divide(most, levels / 2), 0, 0};
      case GroupRange::extreme: return {divide(largest >= -least ? -largest : -least, levels / 2), 0, 0};
      case GroupRange::affine: return {divide(half_range, levels / 2), add(multiply(0.5f, largest), multiply(0.5f, least)), 0};
      case GroupRange::minmax: {
        const float step = divide(half_range, (levels - 1) / 2);
        return {step, add(least, multiply(levels / 2, step)), 0};
      }
    }
    return {0, 0, 0};
  }

  /// Rounds to the type that travels and, where `to` is not null, writes.
  __device__ float put(float value, std::uint8_t* to) const {
    if (options.scale == DType::f32) {
      if (to != nullptr) store_u32(to, bits_of(value));
      return value;
    }
    const std::uint16_t code = options.scale == DType::f16 ? half_bits(value) : bfloat16_bits(value);
    if (to != nullptr) store_u16(to, code);
    return options.scale == DType::f16 ? half_value(code) : bfloat16_value(code);
  }
  __device__ float get(const std::uint8_t* from) const {
    if (options.scale == DType::f32) return float_of(load_u32(from));
    return options.scale == DType::f16 ? half_value(load_u16(from)) : bfloat16_value(load_u16(from));
  }

  /// Whether all codes are finite numbers, those that are never written too, and the step is not negative where none is written; not of NaN.
  __device__ bool fits(const Scale& scale) const {
    const float farthest = add(magnitude_of(scale.offset), -multiply(options.lowest(), magnitude_of(scale.step)));
    return farthest <= largest_float && scale.step >= (options.range == GroupRange::extreme ? -largest_float : 0.0f);
  }

  __device__ Scale scale_of(const Range& found, const BlockPlace& place, std::uint8_t* payload, bool writes, std::uint32_t* status) const {
    const float least = add(found.least, 0.0f), largest = add(found.largest, 0.0f);  // zeros become positive
    std::uint8_t* const to = writes ? payload + cut.scale_at(place.scale) : nullptr;
    Scale scale = wanted(least, largest);
    scale.step = put(scale.step, to);
    if (options.has_offset()) scale.offset = put(scale.offset, to == nullptr ? nullptr : to + cut.scale_bytes / 2);
    // What is not finite was reported already.
    if (writes && finite_bits(bits_of(least)) && finite_bits(bits_of(largest)) && !fits(scale)) atomicOr(status, device_status_beyond_range);
    const float inverse = divide(1, scale.step);
    scale.factor = scale.step == 0 ? 0 : magnitude_of(inverse) > largest_float ? (scale.step < 0 ? -largest_float : largest_float) : inverse;
    return scale;
  }
  __device__ Scale read_scale(const std::uint8_t* payload, const BlockPlace& place, std::uint32_t* status) const {
    const std::uint8_t* const from = payload + cut.scale_at(place.scale);
    const Scale scale = {get(from), options.has_offset() ? get(from + cut.scale_bytes / 2) : 0, 0};
    if (!fits(scale)) atomicOr(status, device_status_damaged);
    return scale;
  }

  __device__ void codes_of(const float (&v)[eight], const Scale& scale, std::int64_t element, std::uint32_t (&codes)[eight]) const {
    std::uint32_t draws[eight] = {};
    if (options.stochastic) draws_of_eight(random_stream, element, draws);
    const std::uint32_t mask = (1u << options.bits) - 1;
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) {
      float y = multiply(options.has_offset() ? add(v[j], -scale.offset) : v[j], scale.factor);
      if (options.stochastic) {
        const float down = floorf(y);
        y = multiply(static_cast<float>(draws[j]), 0x1p-16f) < add(y, -down) ? add(down, 1) : down;
      }
      // Adding 1.5 * 2^23 rounds half to even and leaves the integer in the low bits of the sum.
      codes[j] = bits_of(add(fminf(fmaxf(y, options.low()), options.high()), 0x1.8p23f)) & mask;
    }
  }
  __device__ bool values_of(const std::uint32_t (&codes)[eight], const Scale& scale, float (&v)[eight]) const {
    const int unused = 32 - options.bits;
    THINWIRE_UNROLL
    for (int j = 0; j < eight; ++j) v[j] = add(multiply(static_cast<float>(static_cast<int>(codes[j] << unused) >> unused), scale.step), scale.offset);
    return true;
  }
};

/// Calls body(GroupFormat of the width): 4 and 8 bits have kernels of their own.
template <typename Body>
cudaError_t with_format(const GroupOptions& o, const BlockCut& cut, std::uint64_t random_stream, const Body& body) {
  if (o.bits == 8) return body(GroupFormat<8>{o, cut, random_stream});
  if (o.bits == 4) return body(GroupFormat<4>{o, cut, random_stream});
  return body(GroupFormat<0>{o, cut, random_stream});
}

}  // namespace

int thinwire_cuda_group_encode(const float* x, BlockCut cut, GroupOptions options, std::uint64_t random_stream, void* payload, std::uint32_t* status, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    return with_format(options, cut, random_stream,
                       [&](const auto& format) { return queue_encode_blocks(x, cut, format, static_cast<std::uint8_t*>(payload), status, stream); });
  });
}

int thinwire_cuda_group_decode(const void* payload, BlockCut cut, GroupOptions options, float* out, int adds, std::uint32_t* status, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    return with_format(options, cut, 0,
                       [&](const auto& format) { return queue_decode_blocks(static_cast<const std::uint8_t*>(payload), cut, format, adds != 0, out, status, stream); });
  });
}
