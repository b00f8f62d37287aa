// Entry points of kernels/codec/codecs/learned/autoencoder.cu (kernels/cuda/kernel_abi.h has the rules).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel_abi.h"

namespace thinwire {

constexpr std::size_t autoencoder_workspace_bytes(std::int64_t rows, std::int64_t width) {
  return product_workspace_bytes + static_cast<std::size_t>(rows * width * 4);
}

}  // namespace thinwire

extern "C" {
/// payload [rows, width] (f16 or f32) = x [rows, columns] encoder^T; encoder [width, columns].
using thinwire_cuda_autoencoder_encode_fn = int(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t width, const float* encoder,
                                                int half_wire, void* payload, void* workspace, std::uint32_t* status, int ordinal, void* stream);
/// out = code decoder^T, or +=; decoder [columns, width].
using thinwire_cuda_autoencoder_decode_fn = int(const void* payload, std::int64_t rows, std::int64_t columns, std::int64_t width, const float* decoder,
                                                int half_wire, float* out, int add, void* workspace, std::uint32_t* status, int ordinal, void* stream);
/// travel [rows, width] = gradient decoder; decoder_gradient += gradient^T code unless it is null.
using thinwire_cuda_autoencoder_decode_backward_fn = int(const float* gradient, std::int64_t rows, std::int64_t columns, std::int64_t width,
                                                         const float* decoder, const float* code, float* travel, float* decoder_gradient, void* workspace,
                                                         int ordinal, void* stream);
/// input_gradient [rows, columns] = travel encoder; encoder_gradient += travel^T x unless it is null.
using thinwire_cuda_autoencoder_encode_backward_fn = int(const float* travel, std::int64_t rows, std::int64_t columns, std::int64_t width,
                                                         const float* encoder, const float* x, float* input_gradient, float* encoder_gradient,
                                                         void* workspace, int ordinal, void* stream);
}
