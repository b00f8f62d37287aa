// Causal attention in f32 for heads of any size: a warp per row, which reads keys and values from memory once per 128 columns of its result.
// Correct and simple, and several times slower than the tiles of attention_f32_kernels.cuh: models have such heads seldom.
#pragma once

#include "kernels/nn/attention/attention_f32_kernels.cuh"

namespace thinwire::cuda {

constexpr int wide_warps = 4, wide_threads = 32 * wide_warps, wide_lanes = 4, wide_columns = 32 * wide_lanes;

/// a . b, in all lanes.
__device__ inline float wide_dot(const float* a, const float* b, std::int64_t size) {
  float sum = 0;
  for (std::int64_t c = threadIdx.x % 32; c < size; c += 32) sum += a[c] * b[c];
  return warp_reduce<Sum>(sum);
}

__device__ inline std::int64_t wide_row() { return static_cast<std::int64_t>(blockIdx.x) * wide_warps + threadIdx.x / 32; }

static __global__ void __launch_bounds__(wide_threads) attention_forward_wide(AttentionTokens s, float scale, const float* __restrict__ q,
                                                                              const float* __restrict__ k, const float* __restrict__ v,
                                                                              float* __restrict__ context, float* __restrict__ log_sum_exp) {
  const std::int64_t row = wide_row();
  if (row >= s.batch * s.heads * s.queries) return;
  const TokensPlace place(s, row / s.queries);
  const std::int64_t query = row % s.queries, seen = s.first + query + 1;
  const float *own = q + place.q + query * s.q_row, *keys = k + place.kv, *values = v + place.kv;
  float largest = no_score, sum = 0;
  for (std::int64_t key = 0; key < seen; ++key) {
    const float score = scale * wide_dot(own, keys + key * s.kv_row, s.head_size), before = largest;
    largest = fmaxf(largest, score);
    sum = sum * expf(before - largest) + expf(score - largest);
  }
  const float lse = largest + logf(sum);
  if (threadIdx.x % 32 == 0) log_sum_exp[place.lse + query] = lse;
  for (std::int64_t begin = 0; begin < s.head_size; begin += wide_columns) {
    float out[wide_lanes] = {};
    for (std::int64_t key = 0; key < seen; ++key) {
      const float p = expf(scale * wide_dot(own, keys + key * s.kv_row, s.head_size) - lse);
      THINWIRE_UNROLL
      for (int j = 0; j < wide_lanes; ++j)
        if (const std::int64_t c = begin + 32 * j + threadIdx.x % 32; c < s.head_size) out[j] += p * values[key * s.kv_row + c];
    }
    THINWIRE_UNROLL
    for (int j = 0; j < wide_lanes; ++j)
      if (const std::int64_t c = begin + 32 * j + threadIdx.x % 32; c < s.head_size) context[place.context + query * place.out_row + c] = out[j];
  }
}

/// kKeys: a warp per key, else per query.
template <bool kKeys>
__global__ void __launch_bounds__(wide_threads) attention_backward_wide(AttentionTokens s, float scale, AttentionGradients g) {
  const std::int64_t row = wide_row(), own_count = kKeys ? s.keys : s.queries;
  if (row >= s.batch * s.heads * own_count) return;
  const TokensPlace place(s, row / own_count);
  const std::int64_t own = row % own_count;
  const float *q = g.q + place.q, *k = g.k + place.kv, *v = g.v + place.kv, *dout = g.dcontext + place.context;
  const std::int64_t first = kKeys && own > s.first ? own - s.first : 0, last = kKeys ? s.queries : s.first + own + 1;
  for (std::int64_t begin = 0; begin < s.head_size; begin += wide_columns) {
    float a[wide_lanes] = {}, b[wide_lanes] = {};  // dk or dq; dv
    for (std::int64_t other = first; other < last; ++other) {
      const std::int64_t query = kKeys ? other : own, key = kKeys ? own : other;
      const float *q_row = q + query * s.q_row, *k_row = k + key * s.kv_row, *v_row = v + key * s.kv_row, *dout_row = dout + query * place.out_row;
      const float p = expf(scale * wide_dot(q_row, k_row, s.head_size) - g.log_sum_exp[place.lse + query]);
      const float gradient = scale * p * (wide_dot(dout_row, v_row, s.head_size) - g.delta[place.lse + query]);
      THINWIRE_UNROLL
      for (int j = 0; j < wide_lanes; ++j) {
        const std::int64_t c = begin + 32 * j + threadIdx.x % 32;
        if (c >= s.head_size) continue;
        a[j] += gradient * (kKeys ? q_row : k_row)[c];
        if (kKeys) b[j] += p * dout_row[c];
      }
    }
    THINWIRE_UNROLL
    for (int j = 0; j < wide_lanes; ++j) {
      const std::int64_t c = begin + 32 * j + threadIdx.x % 32;
      if (c >= s.head_size) continue;
      if (kKeys) store_key_gradient(s, place, g, own, c, a[j], b[j]);
      else g.dq[place.q + own * s.q_row + c] = a[j];
    }
  }
}

/// The slice's own keys and values go to the cache; element i of [batch, tokens, heads, 2 head_size].
struct KeepKeysAndValues {
  static constexpr int width = 4;
  std::int64_t tokens, first, length, heads, head_size;
  const float* qkv;
  float* cache;
  template <int kWidth>
  __device__ void run(std::int64_t i) const {
    const std::int64_t pair = 2 * head_size, head = i / pair, token = head / heads;
    float v[kWidth];
    load_pack<kWidth>(qkv + head * 3 * head_size + head_size + i % pair, v);
    store_pack<kWidth>(cache + ((token / tokens * length + first + token % tokens) * heads + head % heads) * pair + i % pair, v);
  }
};

}  // namespace thinwire::cuda
