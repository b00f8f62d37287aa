// CUDA implementation of the products of kernels/codec/codecs/learned/autoencoder.cpp; the weights are the caller's.
#include "kernels/codec/codecs/learned/autoencoder_entries.h"
#include "kernels/codec/payload/wire_values_kernels.cuh"
#include "kernels/cuda/product.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_autoencoder_encode, thinwire_cuda_autoencoder_encode_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_autoencoder_decode, thinwire_cuda_autoencoder_decode_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_autoencoder_decode_backward, thinwire_cuda_autoencoder_decode_backward_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_autoencoder_encode_backward, thinwire_cuda_autoencoder_encode_backward_fn);

namespace {

float* code_of(void* workspace) { return reinterpret_cast<float*>(static_cast<std::uint8_t*>(workspace) + product_workspace_bytes); }

}  // namespace

int thinwire_cuda_autoencoder_encode(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t width, const float* encoder, int half_wire,
                                     void* payload, void* workspace, std::uint32_t* status, int ordinal, void* stream) {
  float* code = code_of(workspace);
  return on_device(ordinal, [&] {
    if (const int e = product(false, true, rows, width, columns, x, encoder, code, false, {workspace, product_workspace_bytes}, ordinal, stream); e != 0) return e;
    return static_cast<int>(pack_values(code, rows * width, payload, half_wire != 0, status, stream));
  });
}

int thinwire_cuda_autoencoder_decode(const void* payload, std::int64_t rows, std::int64_t columns, std::int64_t width, const float* decoder, int half_wire,
                                     float* out, int add_to, void* workspace, std::uint32_t* status, int ordinal, void* stream) {
  float* code = code_of(workspace);
  return on_device(ordinal, [&] {
    if (const auto e = unpack_values(payload, rows * width, code, half_wire != 0, status, stream); e != cudaSuccess) return static_cast<int>(e);
    return product(false, true, rows, columns, width, code, decoder, out, add_to != 0, {workspace, product_workspace_bytes}, ordinal, stream);
  });
}

int thinwire_cuda_autoencoder_decode_backward(const float* gradient, std::int64_t rows, std::int64_t columns, std::int64_t width, const float* decoder,
                                              const float* code, float* travel, float* decoder_gradient, void* workspace, int ordinal, void* stream) {
  const ProductWorkspace w{workspace, product_workspace_bytes};
  return on_device(ordinal, [&] {
    if (const int e = product(false, false, rows, width, columns, gradient, decoder, travel, false, w, ordinal, stream); e != 0) return e;
    return decoder_gradient == nullptr ? 0 : product(true, false, columns, width, rows, gradient, code, decoder_gradient, true, w, ordinal, stream);
  });
}

int thinwire_cuda_autoencoder_encode_backward(const float* travel, std::int64_t rows, std::int64_t columns, std::int64_t width, const float* encoder,
                                              const float* x, float* input_gradient, float* encoder_gradient, void* workspace, int ordinal, void* stream) {
  const ProductWorkspace w{workspace, product_workspace_bytes};
  return on_device(ordinal, [&] {
    if (const int e = product(false, false, rows, columns, width, travel, encoder, input_gradient, false, w, ordinal, stream); e != 0) return e;
    return encoder_gradient == nullptr ? 0 : product(true, false, width, columns, rows, travel, x, encoder_gradient, true, w, ordinal, stream);
  });
}
