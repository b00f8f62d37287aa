// Entry points of kernels/codec/codecs/dense/none.cu (kernels/cuda/kernel_abi.h has the rules).
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
/// out f32[count] = payload (or += with `add`), bit for bit; `none` encodes by thinwire_cuda_copy.
using thinwire_cuda_none_decode_fn = int(const void* payload, std::int64_t count, float* out, int add, int ordinal, void* stream);
}
