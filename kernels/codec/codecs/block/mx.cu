// CUDA implementation of mx.cpp: the same bytes, on a stream.
#include "kernels/codec/codecs/block/mini_format.cuh"
#include "kernels/codec/codecs/block/mx.h"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_mx_encode, int(const float* x, BlockCut cut, simd::MiniFloat element, MxScaleRule rule, void* payload, std::uint32_t* status, int ordinal,
                                                 void* stream));
THINWIRE_CUDA_ENTRY(thinwire_cuda_mx_decode, int(const void* payload, BlockCut cut, simd::MiniFloat element, int largest_code, float* out, int adds, std::uint32_t* status,
                                                 int ordinal, void* stream));

namespace {

constexpr std::uint32_t mantissa_bits = 0x7fffff;

/// 2^n for -127 <= n <= 127.
__device__ inline float power_of_two(int n) { return float_of(n > -127 ? static_cast<std::uint32_t>(n + 127) << 23 : 0x400000u); }

template <int kBits>
struct MxFormat : MiniFormat<kBits> {
  using Found = Magnitude;
  using MiniFormat<kBits>::element;

  BlockCut cut;
  MxScaleRule rule;

  /// The scale's byte, of a block whose largest magnitude has these bits.
  __device__ int byte_of(std::uint32_t largest) const {
    int s = 0;
    if (rule == MxScaleRule::rceil) {
      const std::uint32_t v = bits_of(multiply(float_of(largest), divide(1, element.largest)));
      s = static_cast<int>(v >> 23);
      s += s > 0 ? static_cast<int>((v & mantissa_bits) != 0) : static_cast<int>(v > 0x400000);  // below the normal numbers 2^-127, s = 0, is half their step
    } else {
      const std::uint32_t half_step = rule == MxScaleRule::even ? 1u << (22 - element.mantissa) : 0;
      s = static_cast<int>((largest + half_step) >> 23) - element.max_exponent;
      if (rule == MxScaleRule::ceil) s += static_cast<int>((largest & mantissa_bits) != 0);
    }
    const int most = 254 - element.max_exponent;
    return largest == 0 || s < 0 ? 0 : s > most ? most : s;
  }
  __device__ float scale_of(const Magnitude& found, const BlockPlace& place, std::uint8_t* payload, bool writes, std::uint32_t*) const {
    const int s = byte_of(found.bits);
    if (writes) payload[cut.scale_at(place.scale)] = static_cast<std::uint8_t>(s);
    return power_of_two(127 - s);
  }
  __device__ float read_scale(const std::uint8_t* payload, const BlockPlace& place, std::uint32_t* status) const {
    const int s = payload[cut.scale_at(place.scale)];
    if (s >= 255 - element.max_exponent) atomicOr(status, device_status_damaged);  // 255 itself is the format's NaN
    return power_of_two((s < 254 ? s : 254) - 127);
  }
};

template <typename Body>
cudaError_t with_format(const simd::MiniFloat& element, std::uint32_t largest_code, const BlockCut& cut, MxScaleRule rule, const Body& body) {
  if (element.bits == 8) return body(MxFormat<8>{{element, largest_code}, cut, rule});
  if (element.bits == 4) return body(MxFormat<4>{{element, largest_code}, cut, rule});
  return body(MxFormat<0>{{element, largest_code}, cut, rule});
}

}  // namespace

int thinwire_cuda_mx_encode(const float* x, BlockCut cut, simd::MiniFloat element, MxScaleRule rule, void* payload, std::uint32_t* status, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    return with_format(element, 0, cut, rule, [&](const auto& format) { return queue_encode_blocks(x, cut, format, static_cast<std::uint8_t*>(payload), status, stream); });
  });
}

int thinwire_cuda_mx_decode(const void* payload, BlockCut cut, simd::MiniFloat element, int largest_code, float* out, int adds, std::uint32_t* status, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    return with_format(element, static_cast<std::uint32_t>(largest_code), cut, MxScaleRule::floor,
                       [&](const auto& format) { return queue_decode_blocks(static_cast<const std::uint8_t*>(payload), cut, format, adds != 0, out, status, stream); });
  });
}
