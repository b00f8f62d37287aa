// CUDA implementation of fp8.cpp: the same bytes, on a stream.
#include <limits>
#include <type_traits>

#include "kernels/codec/codecs/block/mini_format.cuh"
#include "kernels/cuda/line_maxima.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_fp8_encode, int(const float* x, BlockCut cut, simd::MiniFloat element, void* payload, std::uint32_t* maxima, std::uint32_t* status, int ordinal,
                                                  void* stream));
THINWIRE_CUDA_ENTRY(thinwire_cuda_fp8_decode, int(const void* payload, BlockCut cut, simd::MiniFloat element, int largest_code, float* out, int adds, std::uint32_t* status,
                                                  int ordinal, void* stream));

namespace {

constexpr float smallest_scale = 0x1p-100f;

/// kKnown: largest magnitudes come from `maxima`, of rows, or one of the tensor.
template <bool kKnown>
struct Fp8Format : MiniFormat<8> {
  using Found = std::conditional_t<kKnown, Nothing, Magnitude>;

  BlockCut cut;
  const std::uint32_t* maxima;

  __device__ bool of_tensor() const { return cut.scale_bytes == 0; }
  __device__ std::int64_t scale_at(const BlockPlace& place) const { return of_tensor() ? 0 : cut.scale_at(place.scale); }

  __device__ float scale_of(const Found& found, const BlockPlace& place, std::uint8_t* payload, bool writes, std::uint32_t*) const {
    std::uint32_t largest = 0;
    if constexpr (kKnown) {
      largest = maxima[of_tensor() ? 0 : place.row];
      writes = writes && place.from == 0 && (!of_tensor() || place.row == 0);
    } else {
      largest = found.bits;
    }
    const float scale = largest == 0 ? 1.0f : fmaxf(divide(float_of(largest), element.largest), smallest_scale);
    if (writes) store_u32(payload + scale_at(place), bits_of(scale));
    return divide(1, scale);
  }
  __device__ float read_scale(const std::uint8_t* payload, const BlockPlace& place, std::uint32_t* status) const {
    const float scale = float_of(load_u32(payload + scale_at(place)));
    if (!(scale >= smallest_scale && scale <= divide(std::numeric_limits<float>::max(), element.largest))) atomicOr(status, device_status_damaged);
    return scale;
  }
};

}  // namespace

int thinwire_cuda_fp8_encode(const float* x, BlockCut cut, simd::MiniFloat element, void* payload, std::uint32_t* maxima, std::uint32_t* status, int ordinal, void* stream) {
  auto* const bytes = static_cast<std::uint8_t*>(payload);
  return on_device(ordinal, [&] {
    if (maxima == nullptr) return queue_encode_blocks(x, cut, Fp8Format<false>{{element, 0}, cut, nullptr}, bytes, status, stream);
    const std::int64_t lines = cut.scale_bytes == 0 ? 1 : cut.rows;
    if (const auto e = queue_line_maxima(x, lines, cut.rows * cut.columns / lines, maxima, status, stream); e != cudaSuccess) return e;
    return queue_encode_blocks(x, cut, Fp8Format<true>{{element, 0}, cut, maxima}, bytes, status, stream);
  });
}

int thinwire_cuda_fp8_decode(const void* payload, BlockCut cut, simd::MiniFloat element, int largest_code, float* out, int adds, std::uint32_t* status, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    return queue_decode_blocks(static_cast<const std::uint8_t*>(payload), cut, Fp8Format<true>{{element, static_cast<std::uint32_t>(largest_code)}, cut, nullptr}, adds != 0, out,
                               status, stream);
  });
}
