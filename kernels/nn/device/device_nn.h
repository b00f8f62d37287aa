// Entry points of the CUDA implementations of kernels/nn, as the CUDA module exports them (core/device/device_abi.h has the rules). Each does what the
// host function of the same name does (kernels/nn/*.h has the maths and the shapes).
//
// `type`: of activations and their gradients, device_f32 or device_bf16; kernels compute in f32. Statistics, layernorm's parameters, losses and
// gradients of parameters are f32 in both. All pointers are device memory of `ordinal`, aligned to their elements (16-byte aligned tensors
// with rows of whole 16 bytes move faster); work is queued on `stream` and nothing waits for it. What the host reports by an exception is
// ORed into `status` (kernels/cuda/kernel_abi.h). Sums run in fixed orders: equal inputs give equal bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/device_abi.h"

namespace thinwire {

inline constexpr int device_f32 = 0, device_bf16 = 1;

/// Rows that one block of a sum over rows takes, and the workspace of such sums: `sums` results per column.
inline constexpr std::int64_t column_sum_rows = 256;
constexpr std::size_t column_sums_workspace_bytes(std::int64_t rows, std::int64_t columns, int sums) {
  return static_cast<std::size_t>((rows + column_sum_rows - 1) / column_sum_rows * columns * sums * 4);
}
inline constexpr std::int64_t squares_block = 16 * 1024;
constexpr std::size_t sum_of_squares_workspace_bytes(std::int64_t count) { return static_cast<std::size_t>((count + squares_block - 1) / squares_block * 8); }
/// f32 [batch, heads, seq]: rows of dcontext . context.
constexpr std::size_t attention_workspace_bytes(std::int64_t batch, std::int64_t seq, std::int64_t heads) {
  return static_cast<std::size_t>(batch * seq * heads * 4);
}

}  // namespace thinwire

extern "C" {
/// C [m, n] (`type_c`) = alpha op(A) op(B) (`type_ab`, both) + beta C + bias [n] (of type_c, or null), row-major with leading dimensions; sums
/// in f32. `workspace`: product_workspace_bytes.
using thinwire_cuda_gemm_fn = int(int type_ab, int type_c, int transpose_a, int transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                                  const void* a, std::int64_t lda, const void* b, std::int64_t ldb, float beta, void* c, std::int64_t ldc,
                                  const void* bias, void* workspace, int ordinal, void* stream);

/// sums [rows, 2]: of x and of its squares.
using thinwire_cuda_row_moments_fn = int(int type, std::int64_t rows, std::int64_t columns, const void* x, float* sums, int ordinal, void* stream);
/// As nn::normalise; `sums` null: the row lies here as a whole and its moments are taken on the way (one kernel).
using thinwire_cuda_normalise_fn = int(int type, std::int64_t rows, std::int64_t columns, std::int64_t hidden, const void* x, const float* sums,
                                       const float* gamma, const float* beta, void* y, float* mean, float* rstd, int ordinal, void* stream);
using thinwire_cuda_gradient_moments_fn = int(int type, std::int64_t rows, std::int64_t columns, const void* x, const void* dy, const float* gamma,
                                              const float* mean, const float* rstd, float* sums, int ordinal, void* stream);
/// As nn::normalise_backward; `sums` null: taken on the way. `workspace`: column_sums_workspace_bytes(rows, columns, 2).
using thinwire_cuda_normalise_backward_fn = int(int type, std::int64_t rows, std::int64_t columns, std::int64_t hidden, const void* x, const void* dy,
                                                const float* gamma, const float* mean, const float* rstd, const float* sums, int accumulate, void* dx,
                                                float* dgamma, float* dbeta, void* workspace, int ordinal, void* stream);

using thinwire_cuda_gelu_forward_fn = int(int type, std::int64_t count, const void* x, void* y, int ordinal, void* stream);
using thinwire_cuda_gelu_backward_fn = int(int type, std::int64_t count, const void* x, const void* dy, void* dx, int ordinal, void* stream);

/// Logits become gradient_scale * (softmax - onehot); a target outside [0, vocab) leaves its row alone and is reported as damage.
using thinwire_cuda_cross_entropy_fn = int(int type, std::int64_t rows, std::int64_t vocab, void* logits, const std::int32_t* targets, float gradient_scale,
                                           float* losses, std::uint32_t* status, int ordinal, void* stream);
/// statistics f32 [rows, 3].
using thinwire_cuda_softmax_statistics_fn = int(int type, std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first,
                                                std::int64_t vocab, const void* logits, const std::int32_t* targets, float* statistics,
                                                std::uint32_t* status, int ordinal, void* stream);
/// statistics [ranks, rows, 3]; losses [rows], which the caller adds up.
using thinwire_cuda_split_cross_entropy_fn = int(int type, std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first, int ranks,
                                                 const float* statistics, const std::int32_t* targets, float gradient_scale, void* logits, float* losses,
                                                 int ordinal, void* stream);

/// As the functions of nn, f32.
using thinwire_cuda_take_maxima_fn = int(std::int64_t rows, const float* statistics, float* maxima, int ordinal, void* stream);
using thinwire_cuda_rescale_sums_fn = int(std::int64_t rows, std::int64_t valid, const float* statistics, const float* maxima, float* sums, int ordinal,
                                          void* stream);
using thinwire_cuda_join_statistics_fn = int(std::int64_t rows, const float* maxima, const float* sums, float* statistics, int ordinal, void* stream);

/// *sum += factor * (total of values / divisor), in f64. `values_f64`, `sum_f64`: f64, else f32.
using thinwire_cuda_add_total_fn = int(int values_f64, int sum_f64, std::int64_t count, const void* values, double factor, double divisor, void* sum,
                                       int ordinal, void* stream);

/// One step of AdamW on f32 weights; `weight_copy` (or null): the new weights as bf16. Constants as nn::adamw_step makes them. With
/// `squares` the gradient is also multiplied by min(1, max_norm / (gradient_scale sqrt(*squares))), so that the host need not see the norm.
struct thinwire_cuda_adamw_factors {
  float beta1, beta2, m_correction, v_correction, epsilon, learning_rate, keep, gradient_scale, max_norm;
};
using thinwire_cuda_adamw_step_fn = int(const thinwire_cuda_adamw_factors* factors, std::int64_t count, const float* gradient, float* weight, float* m,
                                        float* v, void* weight_copy, const double* squares, int ordinal, void* stream);
/// *sum (f64) = sum of squares of x f32, or += with `accumulate`. `workspace`: sum_of_squares_workspace_bytes(count).
using thinwire_cuda_sum_of_squares_fn = int(std::int64_t count, const float* x, double* sum, int accumulate, void* workspace, int ordinal, void* stream);

/// log_sum_exp f32 [batch, heads, seq]. bf16 multiplies on the matrix units, f32 in f32; head_size <= 128 in bf16 (any in f32, slower beyond it).
using thinwire_cuda_attention_forward_fn = int(int type, std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t head_size, const void* qkv,
                                               void* context, float* log_sum_exp, int ordinal, void* stream);
/// `workspace`: attention_workspace_bytes.
using thinwire_cuda_attention_backward_fn = int(int type, std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t head_size, const void* qkv,
                                                const void* context, const float* log_sum_exp, const void* dcontext, void* dqkv, void* workspace,
                                                int ordinal, void* stream);

/// As the functions of nn, f32. `workspace`: attention_workspace_bytes(batch, tokens, heads).
using thinwire_cuda_attention_slice_forward_fn = int(std::int64_t batch, std::int64_t tokens, std::int64_t first, std::int64_t length, std::int64_t heads,
                                                     std::int64_t head_size, const float* qkv, float* cache, float* context, float* log_sum_exp,
                                                     int ordinal, void* stream);
using thinwire_cuda_attention_slice_backward_fn = int(std::int64_t batch, std::int64_t tokens, std::int64_t first, std::int64_t length, std::int64_t heads,
                                                      std::int64_t head_size, const float* qkv, const float* cache, const float* context,
                                                      const float* log_sum_exp, const float* dcontext, float* dcache, float* dqkv, void* workspace,
                                                      int ordinal, void* stream);

using thinwire_cuda_fill_rows_fn = int(int type, std::int64_t rows, std::int64_t columns, const void* bias, void* y, int ordinal, void* stream);
/// sums f32 [columns] +=. `workspace`: column_sums_workspace_bytes(rows, columns, 1).
using thinwire_cuda_add_column_sums_fn = int(int type, std::int64_t rows, std::int64_t columns, const void* x, float* sums, void* workspace, int ordinal,
                                             void* stream);
using thinwire_cuda_add_into_fn = int(int type, std::int64_t count, const void* x, void* y, int ordinal, void* stream);
using thinwire_cuda_scale_in_place_fn = int(int type, std::int64_t count, float factor, void* x, int ordinal, void* stream);
/// As nn::add_rows; x and y have `type`.
using thinwire_cuda_add_rows_fn = int(int type, std::int64_t rows, std::int64_t columns, std::int64_t period, std::int64_t first, const void* x, void* y,
                                      int ordinal, void* stream);
/// As nn::add_rows_gradient; the gradient is f32.
using thinwire_cuda_add_rows_gradient_fn = int(int type, std::int64_t rows, std::int64_t columns, std::int64_t period, std::int64_t first, const void* dy,
                                               float* gradient, int ordinal, void* stream);
/// As nn::copy_rows; f32 to bf16 rounds.
using thinwire_cuda_copy_rows_fn = int(int type_from, int type_to, std::int64_t rows, std::int64_t columns, const void* from, std::int64_t from_stride,
                                       void* to, std::int64_t to_stride, int ordinal, void* stream);
/// As nn::embed_part plus rows of `positions` [seq, columns] unless that is null; `table` and `positions` have `type`. first = 0,
/// count = vocab: the whole table, as nn::embed. A token outside [0, vocab) gives a row of zeros and is reported as damage.
using thinwire_cuda_embed_fn = int(int type, std::int64_t rows, std::int64_t columns, std::int64_t seq, std::int64_t vocab, std::int64_t first,
                                   std::int64_t count, const std::int32_t* tokens, const void* table, const void* positions, void* y,
                                   std::uint32_t* status, int ordinal, void* stream);
/// Gradients are f32; `position_gradient` null: none.
using thinwire_cuda_embed_backward_fn = int(int type, std::int64_t rows, std::int64_t columns, std::int64_t seq, std::int64_t first, std::int64_t count,
                                            const std::int32_t* tokens, const void* dy, float* token_gradient, float* position_gradient, int ordinal,
                                            void* stream);
/// nn::dropout_rows with 0 < rate < 1 and random_stream = mix_stream(hash_name(key.name), key.step): the elements the host drops.
using thinwire_cuda_dropout_fn = int(int type, std::int64_t rows, std::int64_t columns, std::int64_t stride, double rate, std::uint64_t seed,
                                     std::uint64_t random_stream, std::int64_t first_index, const void* x, void* y, int ordinal, void* cuda_stream);
}
