// Entry points of the device twins of codecs, as the CUDA module exports them (core/device_abi.h has the rules).
// All pointers are device memory of `ordinal`; work is queued on `stream`, nothing waits for it. Payloads equal
// those of the host codec of the same name byte for byte, except where a product of matrices stands between
// (powersgd, autoencoder): sums run in another order there. Payloads, lists and tensors may lie at any address that their
// elements allow; 16-byte aligned ones are moved faster. Workspaces are 16-byte aligned.
//
// `status` is one 32-bit word on the device into which kernels OR what they find, so that no host
// synchronisation is needed: set it to 0 once, copy it back with the payload.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device_abi.h"

namespace thinwire {

inline constexpr std::uint32_t device_status_non_finite = 1;    ///< input holds NaN or infinity
inline constexpr std::uint32_t device_status_beyond_range = 2;  ///< a finite value or scale exceeds the wire type
inline constexpr std::uint32_t device_status_damaged = 4;       ///< a payload holds what no encoder writes

/// Bytes of device workspace that thinwire_cuda_quantize_encode needs for `columns` channels.
constexpr std::size_t quantize_workspace_bytes(std::int64_t columns) { return static_cast<std::size_t>(columns) * 8; }

/// How positions are sent (kernels/sparse/index_coding.h: IndexForm).
inline constexpr int index_form_compact = 0, index_form_int32 = 1, index_form_int64 = 2;
inline constexpr std::int64_t topk_tile = 4096, topk_state_bytes = 24640;
/// Bytes of workspace of thinwire_cuda_topk_encode: 6 per element (every element may have to be looked at again), of which
/// little is touched unless magnitudes are all alike.
constexpr std::size_t topk_workspace_bytes(std::int64_t count, std::int64_t kept) {
  const std::int64_t tiles = (count + topk_tile - 1) / topk_tile;
  return static_cast<std::size_t>(topk_state_bytes + tiles * (8 + 4 + 6 * topk_tile) + (kept + count / 256 + 1) / 8 + 16);
}
/// Of thinwire_cuda_sparse_scatter and _gather.
constexpr std::size_t sparse_workspace_bytes(std::int64_t count, std::int64_t kept) {
  return static_cast<std::size_t>(16 + ((kept + count / 256 + 1) / 32768 + 2) * 4);
}

}  // namespace thinwire

extern "C" {
/// out f32[count] = payload (or += with `add`), bit for bit; `none` encodes by thinwire_cuda_copy.
using thinwire_cuda_none_decode_fn = int(const void* payload, std::int64_t count, float* out, int add, int ordinal, void* stream);
/// What error feedback and lazy error propagation do (kernels/codec/residuals.h): x += beta * residual ...
using thinwire_cuda_residual_add_fn = int(float* x, const float* residual, float beta, std::int64_t count, int ordinal, void* stream);
/// ... and residual = x - seen.
using thinwire_cuda_residual_store_fn = int(const float* x, const float* seen, float* residual, std::int64_t count, int ordinal, void* stream);

/// x f32[count] -> payload 2 * count bytes; `bfloat16` 0: f16, 1: bf16.
using thinwire_cuda_cast_encode_fn = int(const float* x, std::int64_t count, int bfloat16, void* payload, std::uint32_t* status,
                                         int ordinal, void* stream);
/// payload -> out f32[count]; `add` != 0: out += values.
using thinwire_cuda_cast_decode_fn = int(const void* payload, std::int64_t count, int bfloat16, float* out, int add,
                                         std::uint32_t* status, int ordinal, void* stream);
/// x f32[rows, columns] -> payload (f16 scales [columns], then chunk-packed codes); bits 2, 4 or 8; norm = max.
/// `workspace`: quantize_workspace_bytes(columns), 16-byte aligned.
using thinwire_cuda_quantize_encode_fn = int(const float* x, std::int64_t rows, std::int64_t columns, int bits, void* payload,
                                             void* workspace, std::uint32_t* status, int ordinal, void* stream);
using thinwire_cuda_quantize_decode_fn = int(const void* payload, std::int64_t rows, std::int64_t columns, int bits, float* out,
                                             int add, std::uint32_t* status, int ordinal, void* stream);

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
/// list [kept] (f16 or f32) = factor * x at the positions that kernels/sparse/random_positions.h draws for (seed, random_stream); `scan`: all
/// of x is looked at for NaN and infinity. count < 2^32.
using thinwire_cuda_randomk_gather_fn = int(const float* x, std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream,
                                            float factor, int half_values, int scan, void* list, std::uint32_t* status, int ordinal, void* stream);
using thinwire_cuda_randomk_scatter_fn = int(const void* list, int half_values, std::int64_t count, std::int64_t kept, std::uint64_t seed,
                                             std::uint64_t random_stream, float factor, float* out, int add, std::uint32_t* status, int ordinal,
                                             void* stream);
}
