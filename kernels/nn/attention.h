// Causal multi-head attention in blocks of queries. Scores of one block and head live in a scratch buffer of
// the thread ([block, keys seen]); only the log-sum-exp per query is kept for the backward pass, which
// rebuilds the probabilities. Memory is O(batch * heads * seq), not O(seq^2).
#pragma once

#include <cstdint>

namespace thinwire::nn {

struct AttentionShape {
  std::int64_t batch = 0, seq = 0, heads = 0, head_size = 0;
  std::int64_t hidden() const { return heads * head_size; }
};

/// qkv [batch, seq, heads, 3, head_size]: head-major, each head beside its own q, k and v, so that a column
/// split of the QKV weight over ranks gives every rank whole heads. context [batch, seq, heads, head_size].
/// log_sum_exp [batch, heads, seq]. Scores are scaled by 1/sqrt(head_size).
template <typename T>
void attention_forward(const AttentionShape& shape, const T* qkv, T* context, T* log_sum_exp);

/// dqkv (overwritten) from dcontext and what the forward pass saw and made.
template <typename T>
void attention_backward(const AttentionShape& shape, const T* qkv, const T* context, const T* log_sum_exp,
                        const T* dcontext, T* dqkv);

}  // namespace thinwire::nn
