// Entry points of the CUDA implementations of codecs, as the CUDA module exports them (core/device/device_abi.h has the rules).
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

#include "core/device/device_abi.h"

namespace thinwire {

inline constexpr std::uint32_t device_status_non_finite = 1;    ///< input holds NaN or infinity
inline constexpr std::uint32_t device_status_beyond_range = 2;  ///< a finite value or scale exceeds the wire type
inline constexpr std::uint32_t device_status_damaged = 4;       ///< a payload holds what no encoder writes

/// Forms of quantize, ORed: one stream of codes instead of chunks (any bits from 1 to 8; chunks need 2, 4 or 8), scales from the mean square,
/// and the released code's arithmetic in f16.
inline constexpr int quantize_neighbour = 1, quantize_l2 = 2, quantize_half_arithmetic = 4;
/// Parts into which rows are cut for sums of squares: about 2048 blocks of 128 columns.
constexpr std::int64_t quantize_row_tiles(std::int64_t rows, std::int64_t columns) {
  const std::int64_t column_tiles = (columns + 127) / 128, most = (rows + 127) / 128;
  const std::int64_t wanted = column_tiles == 0 ? 0 : (2047 + column_tiles) / column_tiles;
  return most < wanted ? most : wanted;
}
/// Bytes of device workspace that thinwire_cuda_quantize_encode needs.
constexpr std::size_t quantize_workspace_bytes(std::int64_t rows, std::int64_t columns, int form) {
  return static_cast<std::size_t>(columns) * (4 + ((form & quantize_l2) != 0 ? 8 * static_cast<std::size_t>(quantize_row_tiles(rows, columns)) : 4));
}

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

/// Of the entry points of randomk's released form.
constexpr std::size_t randomk_workspace_bytes(std::int64_t count, std::int64_t kept) { return static_cast<std::size_t>((count + 31) / 32 + kept) * 4; }

/// What every entry point that multiplies matrices has at the start of its workspace; one workspace serves one stream.
inline constexpr std::size_t product_workspace_bytes = std::size_t{32} << 20;
inline constexpr std::int64_t orthonormalise_most_columns = 32768;
/// Per matrix.
constexpr std::size_t orthonormalise_workspace_bytes(std::int64_t rows, std::int64_t columns) {
  const std::int64_t blocks = (rows + 1023) / 1024;
  return static_cast<std::size_t>(16 + 8 * (columns * columns * (blocks + 1) + columns + columns * rows) + 8) / 16 * 16;
}
/// Of every powersgd entry point for a stack of matrices x [n, m] and rank r.
constexpr std::size_t powersgd_workspace_bytes(std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack) {
  return product_workspace_bytes + static_cast<std::size_t>(stack) * (orthonormalise_workspace_bytes(n > m ? n : m, r) + static_cast<std::size_t>((n + m) * r * 4)) +
         16;
}
constexpr std::size_t autoencoder_workspace_bytes(std::int64_t rows, std::int64_t width) {
  return product_workspace_bytes + static_cast<std::size_t>(rows * width * 4);
}

}  // namespace thinwire

extern "C" {
/// out f32[count] = payload (or += with `add`), bit for bit; `none` encodes by thinwire_cuda_copy.
using thinwire_cuda_none_decode_fn = int(const void* payload, std::int64_t count, float* out, int add, int ordinal, void* stream);
/// What error feedback and lazy error propagation do (kernels/codec/wrappers/residuals.h): x += beta * residual ...
using thinwire_cuda_residual_add_fn = int(float* x, const float* residual, float beta, std::int64_t count, int ordinal, void* stream);
/// ... and residual = x - seen.
using thinwire_cuda_residual_store_fn = int(const float* x, const float* seen, float* residual, std::int64_t count, int ordinal, void* stream);

/// x f32[count] -> payload 2 * count bytes; `bfloat16` 0: f16, 1: bf16.
using thinwire_cuda_cast_encode_fn = int(const float* x, std::int64_t count, int bfloat16, void* payload, std::uint32_t* status,
                                         int ordinal, void* stream);
/// payload -> out f32[count]; `add` != 0: out += values.
using thinwire_cuda_cast_decode_fn = int(const void* payload, std::int64_t count, int bfloat16, float* out, int add,
                                         std::uint32_t* status, int ordinal, void* stream);
/// x f32[rows, columns] -> payload (f16 scales [columns], then codes) in `form`. norm=l2 sums in float64 in an order of its own: a scale differs
/// from the host's only where both sums round to different f16 numbers (once in 1e10 columns).
/// `workspace`: quantize_workspace_bytes(rows, columns, form).
using thinwire_cuda_quantize_encode_fn = int(const float* x, std::int64_t rows, std::int64_t columns, int bits, int form, void* payload,
                                             void* workspace, std::uint32_t* status, int ordinal, void* stream);
using thinwire_cuda_quantize_decode_fn = int(const void* payload, std::int64_t rows, std::int64_t columns, int bits, int form, float* out,
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

/// Dense values as f32 or f16 on the wire, at any address: what does not fit is reported ...
using thinwire_cuda_wire_pack_fn = int(const float* values, std::int64_t count, int half_wire, void* wire, std::uint32_t* status, int ordinal, void* stream);
/// ... and values = factor * wire, or +=.
using thinwire_cuda_wire_unpack_fn = int(const void* wire, std::int64_t count, int half_wire, float factor, float* values, int add, std::uint32_t* status,
                                         int ordinal, void* stream);

// PowerSGD on a stack of matrices of one shape under one another: each has its own factors, which lie under one another as well.

/// Columns of each of `stack` matrices a [rows, columns] become orthonormal in place, dependent ones zero (kernels/matrix/orthonormalise.h);
/// columns <= orthonormalise_most_columns. `released`: modified Gram-Schmidt in f32. Workspace: one per matrix.
using thinwire_cuda_orthonormalise_fn = int(float* a, std::int64_t rows, std::int64_t columns, std::int64_t stack, int released, void* workspace, int ordinal,
                                            void* stream);
/// Columns of the starts q [m, r] that are zero (with `fresh`: all) become N(0, 1) numbers of (seed, random_stream), as the host draws them.
using thinwire_cuda_powersgd_start_fn = int(float* q, std::int64_t m, std::int64_t r, std::int64_t stack, int fresh, std::uint64_t seed,
                                            std::uint64_t random_stream, int ordinal, void* stream);
/// p f32[n, r] = x q, after q [m, r] was made orthonormal in place where asked; p also goes to the wire `send` (f16 or f32) unless that is null.
using thinwire_cuda_powersgd_project_fn = int(const float* x, std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack, float* q,
                                              int orthonormalise_start, int released, int half_wire, float* p, void* send, void* workspace,
                                              std::uint32_t* status, int ordinal, void* stream);
/// p (from the wire `received_p`, or as it is where that is null) becomes orthonormal; q f32[m, r] = x^T p, which is the next start; both go to
/// the wire, p unless `send_p` is null.
using thinwire_cuda_powersgd_back_project_fn = int(const float* x, std::int64_t n, std::int64_t m, std::int64_t r, std::int64_t stack, const void* received_p,
                                                   int released, int half_wire, float* p, float* q, void* send_p, void* send_q, void* workspace,
                                                   std::uint32_t* status, int ordinal, void* stream);
/// out [n, m] = P Q^T, or +=: P is `p`, or `wire_p` where p is null.
using thinwire_cuda_powersgd_expand_fn = int(const float* p, const void* wire_p, const void* wire_q, std::int64_t n, std::int64_t m, std::int64_t r,
                                             std::int64_t stack, int half_wire, float* out, int add, void* workspace, std::uint32_t* status, int ordinal,
                                             void* stream);

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
