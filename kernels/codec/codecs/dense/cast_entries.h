// Entry points of kernels/codec/codecs/dense/cast.cu (kernels/cuda/kernel_abi.h has the rules).
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
/// x f32[count] -> payload 2 * count bytes; `bfloat16` 0: f16, 1: bf16.
using thinwire_cuda_cast_encode_fn = int(const float* x, std::int64_t count, int bfloat16, void* payload, std::uint32_t* status,
                                         int ordinal, void* stream);
/// payload -> out f32[count]; `add` != 0: out += values.
using thinwire_cuda_cast_decode_fn = int(const void* payload, std::int64_t count, int bfloat16, float* out, int add,
                                         std::uint32_t* status, int ordinal, void* stream);
}
