// Multi-head attention in blocks of queries, causal or over padded sequences in both directions. Scores of one block and head live in a scratch buffer of
// the thread ([block, keys seen]); only the log-sum-exp per query is kept for the backward pass, which
// rebuilds the probabilities. Memory is O(batch * heads * seq), not O(seq^2).
#pragma once

#include <cstdint>

#include "kernels/nn/gemm/compute_type.h"

namespace thinwire::nn {

struct AttentionShape {
  std::int64_t batch = 0, seq = 0, heads = 0, head_size = 0;
  std::int64_t hidden() const { return heads * head_size; }
};

/// qkv [batch, seq, heads, 3, head_size]: head-major, each head beside its own q, k and v, so that a column
/// split of the QKV weight over ranks gives every rank whole heads. context [batch, seq, heads, head_size].
/// log_sum_exp [batch, heads, seq]. Scores are scaled by 1/sqrt(head_size).
/// Under a device placement `compute` bf16 rounds operands and results to bf16 and multiplies on the matrix units, for heads up to 128; the
/// host, wider heads and slices compute in f32 whatever it says.
template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, T* context, T* log_sum_exp, ComputeType compute = ComputeType::f32);

/// dqkv (overwritten) from dcontext and what the forward pass saw and made.
template <typename T>
void attention_backward(const AttentionShape& shape, const T* qkv, const T* context, const T* log_sum_exp,
                        const T* dcontext, T* dqkv, ComputeType compute = ComputeType::f32);

/// Bidirectional (BERT, Devlin et al. 2018, arXiv 1810.04805): every query sees the keys [0, lengths[b]) of its sequence, whatever its own place; the
/// others are padding. Queries of the padding attend like any other, and nobody sees them. lengths [batch], each in 1 .. seq (CorruptData),
/// or null: no padding. Host only: UsageError under a device placement.
template <typename T>
void padded_attention_forward(const AttentionShape& shape, const std::int32_t* lengths, const T* qkv, T* context, T* log_sum_exp);

/// dqkv (overwritten); gradients of the keys and values of padding are 0.
template <typename T>
void padded_attention_backward(const AttentionShape& shape, const std::int32_t* lengths, const T* qkv, const T* context, const T* log_sum_exp,
                               const T* dcontext, T* dqkv);

/// Tokens [first, first + tokens) of sequences of `length` tokens: a slice as a token-sliced pipeline computes it
/// (TeraPipe, Li et al. 2021, arXiv 2102.07988). Its queries see the keys of [0, first + tokens), of its own tokens
/// only those not after the query.
struct AttentionSlice {
  std::int64_t batch = 0, tokens = 0, first = 0, length = 0, heads = 0, head_size = 0;
  std::int64_t hidden() const { return heads * head_size; }
};

/// One slice; the slices of a sequence come in order. qkv [batch, tokens, heads, 3, head_size], context and log_sum_exp
/// as above with `tokens` in the place of seq. cache [batch, length, heads, 2, head_size] holds keys and values: the
/// slice's own are written to its rows, those in front of it must be there.
template <typename T>
void attention_slice_forward(const AttentionSlice& slice, const T* qkv, T* cache, T* context, T* log_sum_exp);

/// Its backward pass; the slices of a sequence come in reverse order. dcache (as cache) gathers the gradients of keys and
/// values: the last slice (first + tokens = length) overwrites it, the others add to the rows that they saw. dqkv
/// (overwritten) has the gradient of the queries, and from dcache that of the slice's own keys and values, which is
/// complete then, since every slice behind it has been through.
template <typename T>
void attention_slice_backward(const AttentionSlice& slice, const T* qkv, const T* cache, const T* context, const T* log_sum_exp,
                              const T* dcontext, T* dcache, T* dqkv);

}  // namespace thinwire::nn
