// CUDA implementation of nvfp4.cpp: the same bytes, on a stream.
#include <limits>

#include "kernels/codec/codecs/block/mini_format.cuh"
#include "kernels/cuda/line_maxima.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_nvfp4_encode, int(const float* x, BlockCut cut, simd::MiniFloat element, simd::MiniFloat of_scales, void* payload, std::uint32_t* maximum,
                                                    std::uint32_t* status, int ordinal, void* stream));
THINWIRE_CUDA_ENTRY(thinwire_cuda_nvfp4_decode, int(const void* payload, BlockCut cut, simd::MiniFloat element, simd::MiniFloat of_scales, float* out, int adds,
                                                    std::uint32_t* status, int ordinal, void* stream));

namespace {

constexpr float least_block_scale = 0x1p-6f, smallest_head = 0x1p-100f;
constexpr std::uint32_t least_scale_code = 8, largest_scale_code = 126;  // 2^-6 and 448

struct Nvfp4Format : MiniFormat<4> {
  using Found = Magnitude;

  simd::MiniFloat of_scales;
  BlockCut cut;
  const std::uint32_t* maximum;  ///< of the tensor; null: blocks alone have scales

  __device__ float scale_of(const Magnitude& found, const BlockPlace& place, std::uint8_t* payload, bool writes, std::uint32_t*) const {
    float head = 1;
    if (maximum != nullptr) {
      const std::uint32_t largest = *maximum;
      head = largest == 0 ? 0.0f : fmaxf(divide(float_of(largest), 2688.0f), smallest_head);
      if (writes && place.element == 0) store_u32(payload, bits_of(head));
    }
    const float wanted = divide(divide(float_of(found.bits), 6.0f), head == 0 ? 1.0f : head);  // of zeros the head is 0
    const std::uint32_t code = mini_code_of(fminf(fmaxf(wanted, least_block_scale), of_scales.largest), of_scales);
    if (writes) payload[cut.scale_at(place.scale)] = static_cast<std::uint8_t>(code);
    return divide(head == 0 ? 0.0f : divide(1, head), mini_value_of(code, of_scales));
  }
  __device__ float read_scale(const std::uint8_t* payload, const BlockPlace& place, std::uint32_t* status) const {
    const float head = cut.scales_at > 0 ? float_of(load_u32(payload)) : 1.0f;
    const std::uint32_t code = payload[cut.scale_at(place.scale)];
    const bool good = head >= 0 && multiply(head, 2688.0f) <= std::numeric_limits<float>::max() && code >= least_scale_code && code <= largest_scale_code;
    if (!good) atomicOr(status, device_status_damaged);
    return multiply(mini_value_of(code, of_scales), head);
  }
};

Nvfp4Format format_of(const simd::MiniFloat& element, const simd::MiniFloat& of_scales, const BlockCut& cut, const std::uint32_t* maximum) {
  return {{element, (1u << (element.bits - 1)) - 1}, of_scales, cut, maximum};
}

}  // namespace

int thinwire_cuda_nvfp4_encode(const float* x, BlockCut cut, simd::MiniFloat element, simd::MiniFloat of_scales, void* payload, std::uint32_t* maximum, std::uint32_t* status,
                               int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    if (maximum != nullptr)
      if (const auto e = queue_line_maxima(x, 1, cut.rows * cut.columns, maximum, status, stream); e != cudaSuccess) return e;
    return queue_encode_blocks(x, cut, format_of(element, of_scales, cut, maximum), static_cast<std::uint8_t*>(payload), status, stream);
  });
}

int thinwire_cuda_nvfp4_decode(const void* payload, BlockCut cut, simd::MiniFloat element, simd::MiniFloat of_scales, float* out, int adds, std::uint32_t* status, int ordinal,
                               void* stream) {
  return on_device(ordinal, [&] {
    return queue_decode_blocks(static_cast<const std::uint8_t*>(payload), cut, format_of(element, of_scales, cut, nullptr), adds != 0, out, status, stream);
  });
}
