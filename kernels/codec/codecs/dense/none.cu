// CUDA implementation of kernels/codec/codecs/dense/none.cpp: the f32 values as they are.
#include "kernels/codec/codecs/dense/none_entries.h"
#include "kernels/cuda/map.cuh"

using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_none_decode, thinwire_cuda_none_decode_fn);

namespace {

struct AddValues {
  static constexpr int width = 4;
  const float* values;
  float* out;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    float a[kWidth], b[kWidth];
    load_pack<kWidth>(values + i, a);
    load_pack<kWidth>(out + i, b);
    THINWIRE_UNROLL
    for (int j = 0; j < kWidth; ++j) b[j] = add(b[j], a[j]);
    store_pack<kWidth>(out + i, b);
  }
};

// A payload at any byte: cut for a destination.
struct AddBytes {
  static constexpr int width = 1;
  const std::uint8_t* bytes;
  float* out;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    out[i] = add(out[i], float_of(load_u32(bytes + 4 * i)));
  }
};

}  // namespace

int thinwire_cuda_none_decode(const void* payload, std::int64_t count, float* out, int add_to, int ordinal, void* stream) {
  if (count == 0) return cudaSuccess;
  return on_device(ordinal, [&] {
    if (!add_to)
      return cudaMemcpyAsync(out, payload, static_cast<std::size_t>(count) * sizeof(float), cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream));
    if (!aligned(payload, 4)) return map(AddBytes{static_cast<const std::uint8_t*>(payload), out}, count, false, stream);
    return map(AddValues{static_cast<const float*>(payload), out}, count, aligned(payload, 16) && aligned(out, 16), stream);
  });
}
