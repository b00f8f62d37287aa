// Entry points of kernels/codec/codecs/sparse/topk.cu (kernels/cuda/kernel_abi.h has the rules).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/sparse/device_sizes.h"

extern "C" {
/// The `kept` largest magnitudes of x f32[count], 1 <= kept <= count < 2^32, and their positions: values [kept] (f16, or f32), then
/// positions in `index_form`.
using thinwire_cuda_topk_encode_fn = int(const float* x, std::int64_t count, std::int64_t kept, int half_values, int index_form, void* payload,
                                         void* workspace, std::uint32_t* status, int ordinal, void* stream);
/// out f32[count] = 0 but list[i] at the i-th position of `index` (or += with `add`). Decodes topk, and is the masked rule's encode_backward.
using thinwire_cuda_sparse_scatter_fn = int(const void* index, int index_form, std::int64_t count, std::int64_t kept, const void* list, int half_values,
                                            float* out, int add, void* workspace, std::uint32_t* status, int ordinal, void* stream);
/// list f32[kept] = x f32[count] at the positions of `index`: the masked rule's decode_backward.
using thinwire_cuda_sparse_gather_fn = int(const void* index, int index_form, std::int64_t count, std::int64_t kept, const float* x, float* list,
                                           void* workspace, std::uint32_t* status, int ordinal, void* stream);
}
