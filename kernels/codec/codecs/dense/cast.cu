// CUDA implementation of kernels/codec/codecs/dense/cast.cpp: the same bytes, on a stream.
#include "kernels/codec/codecs/dense/cast_kernels.cuh"
#include "kernels/cuda/launch.cuh"

using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_cast_encode, thinwire_cuda_cast_encode_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_cast_decode, thinwire_cuda_cast_decode_fn);

namespace {

template <bool kBFloat16>
cudaError_t encode(const float* x, std::int64_t count, void* payload, std::uint32_t* status, void* stream) {
  const std::int64_t vectors = cast_vectors(x, payload, count);
  const cudaError_t error = launch(cast_encode_vectors<kBFloat16>, ceil_divide(vectors, cast_threads * cast_unroll), cast_threads, stream,
                                   reinterpret_cast<const float4*>(x), vectors, static_cast<ushort4*>(payload), status);
  if (error != cudaSuccess) return error;
  return launch(cast_encode_elements<kBFloat16>, ceil_divide(count - 4 * vectors, cast_threads), cast_threads, stream, x, 4 * vectors,
                count, static_cast<std::uint8_t*>(payload), status);
}

template <bool kBFloat16, bool kAdd>
cudaError_t decode(const void* payload, std::int64_t count, float* out, std::uint32_t* status, void* stream) {
  const std::int64_t vectors = cast_vectors(out, payload, count);
  const cudaError_t error =
      launch(cast_decode_vectors<kBFloat16, kAdd>, ceil_divide(vectors, cast_threads * cast_unroll), cast_threads, stream,
             static_cast<const ushort4*>(payload), vectors, reinterpret_cast<float4*>(out), status);
  if (error != cudaSuccess) return error;
  return launch(cast_decode_elements<kBFloat16, kAdd>, ceil_divide(count - 4 * vectors, cast_threads), cast_threads, stream,
                static_cast<const std::uint8_t*>(payload), 4 * vectors, count, out, status);
}

}  // namespace

int thinwire_cuda_cast_encode(const float* x, std::int64_t count, int bfloat16, void* payload, std::uint32_t* status, int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    return bfloat16 ? encode<true>(x, count, payload, status, stream) : encode<false>(x, count, payload, status, stream);
  });
}

int thinwire_cuda_cast_decode(const void* payload, std::int64_t count, int bfloat16, float* out, int add, std::uint32_t* status,
                              int ordinal, void* stream) {
  return on_device(ordinal, [&] {
    if (bfloat16) return add ? decode<true, true>(payload, count, out, status, stream) : decode<true, false>(payload, count, out, status, stream);
    return add ? decode<false, true>(payload, count, out, status, stream) : decode<false, false>(payload, count, out, status, stream);
  });
}
