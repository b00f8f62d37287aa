// Entry points of kernels/codec/codecs/sparse/randomk.cu (kernels/cuda/kernel_abi.h has the rules).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/sparse/device_sizes.h"

extern "C" {
/// list [kept] (f16 or f32) = factor * x at the positions that kernels/sparse/random_positions.h draws for (seed, random_stream); `scan`: all
/// of x is looked at for NaN and infinity. count < 2^32.
using thinwire_cuda_randomk_gather_fn = int(const float* x, std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream,
                                            float factor, int half_values, int scan, void* list, std::uint32_t* status, int ordinal, void* stream);
using thinwire_cuda_randomk_scatter_fn = int(const void* list, int half_values, std::int64_t count, std::int64_t kept, std::uint64_t seed,
                                             std::uint64_t random_stream, float factor, float* out, int add, std::uint32_t* status, int ordinal,
                                             void* stream);

/// The released form, whose positions are drawn one after the other and sent. Payload: values [kept], then int64 positions in the order drawn.
using thinwire_cuda_randomk_released_encode_fn = int(const float* x, std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream,
                                                     float factor, int half_values, void* payload, void* workspace, std::uint32_t* status, int ordinal,
                                                     void* stream);
using thinwire_cuda_randomk_released_decode_fn = int(const void* payload, int half_values, std::int64_t count, std::int64_t kept, float* out, int add,
                                                     void* workspace, std::uint32_t* status, int ordinal, void* stream);
/// Its masked rule: the positions are drawn again. list f32[kept] = x there; out f32[count] = factor * list there and 0 elsewhere.
using thinwire_cuda_randomk_released_gather_fn = int(const float* x, std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream,
                                                     float* list, void* workspace, int ordinal, void* stream);
using thinwire_cuda_randomk_released_scatter_fn = int(const float* list, std::int64_t count, std::int64_t kept, std::uint64_t seed,
                                                      std::uint64_t random_stream, float factor, float* out, void* workspace, int ordinal, void* stream);
}
