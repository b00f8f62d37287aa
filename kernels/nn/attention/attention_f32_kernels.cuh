// Causal attention in f32: exact to rounding beside kernels/nn/attention/attention.cpp, on the ordinary units. A block owns 16 rows (queries, or keys in
// the pass over keys), eight threads each, and walks over the tiles of 16 on the other side in shared memory; scores never leave the block.
// Heads narrower than kSize are filled up with zeros; wider ones than 128 are for attention_wide_kernels.cuh.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/nn/attention/attention.h"

namespace thinwire::cuda {

constexpr int exact_rows = 16, exact_lanes = 8, exact_threads = exact_rows * exact_lanes;
constexpr float no_score = -3.0e38f;  // beside which no score counts, and from which it can be subtracted

/// One (sequence, head): where its rows begin and how far they are apart.
struct HeadPlace {
  std::int64_t qkv, context, lse, row, out_row;
  __device__ HeadPlace(const nn::AttentionShape& s, std::int64_t item) {
    const std::int64_t hidden = s.heads * s.head_size, sequence = item / s.heads, head = item % s.heads;
    row = 3 * hidden, out_row = hidden;
    qkv = sequence * s.seq * row + head * 3 * s.head_size;
    context = sequence * s.seq * hidden + head * s.head_size;
    lse = item * s.seq;
  }
};

/// tile [16][kSize] = rows first .. of a matrix with rows of `stride`, zeros beyond `seq` rows and `size` columns.
template <int kSize>
__device__ inline void load_exact_tile(float (&tile)[exact_rows][kSize + 1], const float* from, std::int64_t stride, std::int64_t first, std::int64_t seq, int size) {
  for (int e = static_cast<int>(threadIdx.x); e < exact_rows * kSize; e += exact_threads) {
    const int r = e / kSize, c = e % kSize;
    tile[r][c] = first + r < seq && c < size ? from[(first + r) * stride + c] : 0.0f;
  }
}

template <int kSize>
__device__ inline float exact_dot(const float (&a)[kSize + 1], const float (&b)[kSize + 1]) {
  float sum = 0;
  for (int c = 0; c < kSize; ++c) sum += a[c] * b[c];
  return sum;
}

/// Where queries, keys and values of causal attention lie: all in one tensor, or, for a slice of the tokens (nn::AttentionSlice), keys and values in
/// the cache. Queries are tokens [first, first + queries) and see the keys [0, own token]. Gradients lie as what they are the gradients of.
struct AttentionTokens {
  std::int64_t batch, heads, head_size, queries, first, keys;
  std::int64_t q_row, q_head, q_sequence, kv_row, kv_head, kv_sequence;  ///< elements from one to the next
  std::int64_t items() const { return batch * heads; }
};

/// One (sequence, head) of them: offsets.
struct TokensPlace {
  std::int64_t q, kv, context, lse, out_row;
  __device__ TokensPlace(const AttentionTokens& s, std::int64_t item) {
    const std::int64_t sequence = item / s.heads, head = item % s.heads;
    out_row = s.heads * s.head_size;
    q = sequence * s.q_sequence + head * s.q_head;
    kv = sequence * s.kv_sequence + head * s.kv_head;
    context = sequence * s.queries * out_row + head * s.head_size;
    lse = item * s.queries;
  }
};

/// What the backward pass reads, and where it writes. dk and dv lie as k and v and are added to with `adds`; those of the slice's own tokens
/// also go to own_dk (as q, with dv head_size behind it) unless that is null.
struct AttentionGradients {
  const float *q, *k, *v, *log_sum_exp, *delta, *dcontext;
  float *dq, *dk, *dv, *own_dk;
  bool adds;
};

/// Writes one element of dk and of dv.
__device__ inline void store_key_gradient(const AttentionTokens& s, const TokensPlace& place, const AttentionGradients& g, std::int64_t key, std::int64_t column,
                                          float dk, float dv) {
  const std::int64_t at = place.kv + key * s.kv_row + column;
  if (g.adds) dk += g.dk[at], dv += g.dv[at];
  g.dk[at] = dk, g.dv[at] = dv;
  if (g.own_dk == nullptr || key < s.first) return;
  float* own = g.own_dk + place.q + (key - s.first) * s.q_row + column;
  own[0] = dk, own[s.head_size] = dv;
}

template <int kSize>
__global__ void __launch_bounds__(exact_threads) attention_forward_f32(AttentionTokens s, float scale, const float* __restrict__ q, const float* __restrict__ k,
                                                                       const float* __restrict__ v, float* __restrict__ context,
                                                                       float* __restrict__ log_sum_exp) {
  __shared__ float queries[exact_rows][kSize + 1], keys[exact_rows][kSize + 1], values[exact_rows][kSize + 1], scores[exact_rows][exact_rows + 1];
  const std::int64_t tiles = (s.queries + exact_rows - 1) / exact_rows;
  const TokensPlace place(s, blockIdx.x / tiles);
  const std::int64_t first = (tiles - 1 - blockIdx.x % tiles) * exact_rows;  // long rows first
  const int size = static_cast<int>(s.head_size), r = static_cast<int>(threadIdx.x) / exact_lanes, lane = static_cast<int>(threadIdx.x) % exact_lanes;
  const std::int64_t query = first + r;
  load_exact_tile<kSize>(queries, q + place.q, s.q_row, first, s.queries, size);
  float largest = no_score, sum = 0, out[kSize / exact_lanes] = {};
  const std::int64_t end = s.first + first + exact_rows < s.keys ? s.first + first + exact_rows : s.keys;
  for (std::int64_t key = 0; key < end; key += exact_rows) {
    __syncthreads();
    load_exact_tile<kSize>(keys, k + place.kv, s.kv_row, key, s.keys, size);
    load_exact_tile<kSize>(values, v + place.kv, s.kv_row, key, s.keys, size);
    __syncthreads();
    float tile_largest = largest;
    for (int o = lane; o < exact_rows; o += exact_lanes) {
      const float score = key + o <= s.first + query && key + o < s.keys ? scale * exact_dot<kSize>(queries[r], keys[o]) : no_score;
      scores[r][o] = score;
      tile_largest = fmaxf(tile_largest, score);
    }
    THINWIRE_UNROLL
    for (int lanes = exact_lanes / 2; lanes > 0; lanes /= 2) tile_largest = fmaxf(tile_largest, __shfl_xor_sync(all_lanes, tile_largest, lanes));
    __syncwarp();
    const float shrink = expf(largest - tile_largest);
    largest = tile_largest;
    sum *= shrink;
    THINWIRE_UNROLL
    for (int c = 0; c < kSize / exact_lanes; ++c) out[c] *= shrink;
    for (int o = 0; o < exact_rows; ++o) {
      const float p = scores[r][o] == no_score ? 0.0f : expf(scores[r][o] - largest);
      sum += p;
      THINWIRE_UNROLL
      for (int c = 0; c < kSize / exact_lanes; ++c) out[c] += p * values[o][c * exact_lanes + lane];
    }
  }
  if (query >= s.queries) return;
  THINWIRE_UNROLL
  for (int c = 0; c < kSize / exact_lanes; ++c)
    if (c * exact_lanes + lane < size) context[place.context + query * place.out_row + c * exact_lanes + lane] = out[c] / sum;
  if (lane == 0) log_sum_exp[place.lse + query] = largest + logf(sum);
}

/// kKeys: the block owns keys and makes dk and dv from the queries at and after them; else it owns queries and makes dq from the keys up to them.
template <int kSize, bool kKeys>
__global__ void __launch_bounds__(exact_threads) attention_backward_f32(AttentionTokens s, float scale, AttentionGradients g) {
  constexpr int own_columns = kSize / exact_lanes;
  // Own rows: (k, v) or (q, dout); the others': (q, dout) or (k, v).
  __shared__ float own_a[exact_rows][kSize + 1], own_b[exact_rows][kSize + 1], other_a[exact_rows][kSize + 1], other_b[exact_rows][kSize + 1];
  __shared__ float probabilities[kKeys ? exact_rows : 1][exact_rows + 1], gradients[exact_rows][exact_rows + 1];
  const std::int64_t own_count = kKeys ? s.keys : s.queries, tiles = (own_count + exact_rows - 1) / exact_rows;
  const TokensPlace place(s, blockIdx.x / tiles);
  const std::int64_t first = (kKeys ? blockIdx.x % tiles : tiles - 1 - blockIdx.x % tiles) * exact_rows;  // long ones first
  const int size = static_cast<int>(s.head_size), r = static_cast<int>(threadIdx.x) / exact_lanes, lane = static_cast<int>(threadIdx.x) % exact_lanes;
  const std::int64_t own = first + r;
  const float *q = g.q + place.q, *k = g.k + place.kv, *v = g.v + place.kv, *dout = g.dcontext + place.context;
  load_exact_tile<kSize>(own_a, kKeys ? k : q, kKeys ? s.kv_row : s.q_row, first, own_count, size);
  load_exact_tile<kSize>(own_b, kKeys ? v : dout, kKeys ? s.kv_row : place.out_row, first, own_count, size);
  float first_sum[own_columns] = {}, second_sum[kKeys ? own_columns : 1] = {};  // dk or dq; dv
  const std::int64_t seen = s.first + first + exact_rows < s.keys ? s.first + first + exact_rows : s.keys;  // by the own queries
  const std::int64_t begin = kKeys && first > s.first ? first - s.first : 0, end = kKeys ? s.queries : seen;
  for (std::int64_t other = begin; other < end; other += exact_rows) {
    __syncthreads();
    load_exact_tile<kSize>(other_a, kKeys ? q : k, kKeys ? s.q_row : s.kv_row, other, kKeys ? s.queries : s.keys, size);
    load_exact_tile<kSize>(other_b, kKeys ? dout : v, kKeys ? place.out_row : s.kv_row, other, kKeys ? s.queries : s.keys, size);
    __syncthreads();
    for (int o = lane; o < exact_rows; o += exact_lanes) {
      const std::int64_t query = kKeys ? other + o : own, key = kKeys ? own : other + o;
      float p = 0, gradient = 0;
      if (key <= s.first + query && query < s.queries && key < s.keys) {
        p = expf(scale * exact_dot<kSize>(own_a[r], other_a[o]) - g.log_sum_exp[place.lse + query]);
        gradient = scale * p * (exact_dot<kSize>(own_b[r], other_b[o]) - g.delta[place.lse + query]);
      }
      if constexpr (kKeys) probabilities[r][o] = p;
      gradients[r][o] = gradient;
    }
    __syncwarp();  // a row's eight threads lie in one warp
    for (int o = 0; o < exact_rows; ++o) {
      THINWIRE_UNROLL
      for (int c = 0; c < own_columns; ++c) {
        first_sum[c] += gradients[r][o] * other_a[o][c * exact_lanes + lane];
        if constexpr (kKeys) second_sum[c] += probabilities[r][o] * other_b[o][c * exact_lanes + lane];
      }
    }
  }
  if (own >= own_count) return;
  THINWIRE_UNROLL
  for (int c = 0; c < own_columns; ++c) {
    const int column = c * exact_lanes + lane;
    if (column >= size) continue;
    if constexpr (kKeys) store_key_gradient(s, place, g, own, column, first_sum[c], second_sum[c]);
    else g.dq[place.q + own * s.q_row + column] = first_sum[c];
  }
}

/// delta [batch, heads, seq] = rows of dcontext . context, a warp each.
template <typename T>
__global__ void __launch_bounds__(256) attention_delta(nn::AttentionShape s, const T* __restrict__ context, const T* __restrict__ dcontext, float* delta) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (i >= s.batch * s.heads * s.seq) return;
  const HeadPlace place(s, i / s.seq);
  const std::int64_t at = place.context + i % s.seq * place.out_row;
  float sum = 0;
  for (std::int64_t c = threadIdx.x % 32; c < s.head_size; c += 32) sum += value_of(context[at + c]) * value_of(dcontext[at + c]);
  sum = warp_reduce<Sum>(sum);
  if (threadIdx.x % 32 == 0) delta[i] = sum;
}

}  // namespace thinwire::cuda
