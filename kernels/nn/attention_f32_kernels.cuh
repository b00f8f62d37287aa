// Causal attention in f32: exact to rounding beside kernels/nn/attention.cpp, on the ordinary units. A block owns 16 rows (queries, or keys in
// the pass over keys), eight threads each, and walks over the tiles of 16 on the other side in shared memory; scores never leave the block.
// Heads narrower than kSize are filled up with zeros.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/nn/attention.h"

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

template <int kSize>
__global__ void __launch_bounds__(exact_threads) attention_forward_f32(nn::AttentionShape s, float scale, const float* __restrict__ qkv, float* __restrict__ context,
                                                                       float* __restrict__ log_sum_exp) {
  __shared__ float queries[exact_rows][kSize + 1], keys[exact_rows][kSize + 1], values[exact_rows][kSize + 1], scores[exact_rows][exact_rows + 1];
  const std::int64_t tiles = (s.seq + exact_rows - 1) / exact_rows;
  const HeadPlace place(s, blockIdx.x / tiles);
  const std::int64_t first = (tiles - 1 - blockIdx.x % tiles) * exact_rows;  // long rows first
  const int size = static_cast<int>(s.head_size), r = static_cast<int>(threadIdx.x) / exact_lanes, lane = static_cast<int>(threadIdx.x) % exact_lanes;
  const std::int64_t query = first + r;
  load_exact_tile<kSize>(queries, qkv + place.qkv, place.row, first, s.seq, size);
  float largest = no_score, sum = 0, out[kSize / exact_lanes] = {};
  for (std::int64_t key = 0; key <= first; key += exact_rows) {
    __syncthreads();
    load_exact_tile<kSize>(keys, qkv + place.qkv + s.head_size, place.row, key, s.seq, size);
    load_exact_tile<kSize>(values, qkv + place.qkv + 2 * s.head_size, place.row, key, s.seq, size);
    __syncthreads();
    float tile_largest = largest;
    for (int k = lane; k < exact_rows; k += exact_lanes) {
      const float score = key + k <= query && key + k < s.seq ? scale * exact_dot<kSize>(queries[r], keys[k]) : no_score;
      scores[r][k] = score;
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
    for (int k = 0; k < exact_rows; ++k) {
      const float p = scores[r][k] == no_score ? 0.0f : expf(scores[r][k] - largest);
      sum += p;
      THINWIRE_UNROLL
      for (int c = 0; c < kSize / exact_lanes; ++c) out[c] += p * values[k][c * exact_lanes + lane];
    }
  }
  if (query >= s.seq) return;
  THINWIRE_UNROLL
  for (int c = 0; c < kSize / exact_lanes; ++c)
    if (c * exact_lanes + lane < size) context[place.context + query * place.out_row + c * exact_lanes + lane] = out[c] / sum;
  if (lane == 0) log_sum_exp[place.lse + query] = largest + logf(sum);
}

/// kKeys: the block owns keys and makes dk and dv from the queries at and after them; else it owns queries and makes dq from the keys up to them.
template <int kSize, bool kKeys>
__global__ void __launch_bounds__(exact_threads) attention_backward_f32(nn::AttentionShape s, float scale, const float* __restrict__ qkv,
                                                                        const float* __restrict__ log_sum_exp, const float* __restrict__ delta,
                                                                        const float* __restrict__ dcontext, float* __restrict__ dqkv) {
  constexpr int own_columns = kSize / exact_lanes;
  // Own rows: (k, v) or (q, dout); the others': (q, dout) or (k, v).
  __shared__ float own_a[exact_rows][kSize + 1], own_b[exact_rows][kSize + 1], other_a[exact_rows][kSize + 1], other_b[exact_rows][kSize + 1];
  __shared__ float probabilities[kKeys ? exact_rows : 1][exact_rows + 1], gradients[exact_rows][exact_rows + 1];
  const std::int64_t tiles = (s.seq + exact_rows - 1) / exact_rows;
  const HeadPlace place(s, blockIdx.x / tiles);
  const std::int64_t first = (kKeys ? blockIdx.x % tiles : tiles - 1 - blockIdx.x % tiles) * exact_rows;  // long ones first
  const int size = static_cast<int>(s.head_size), r = static_cast<int>(threadIdx.x) / exact_lanes, lane = static_cast<int>(threadIdx.x) % exact_lanes;
  const std::int64_t own = first + r;
  const float *q = qkv + place.qkv, *k = q + s.head_size, *v = k + s.head_size, *dout = dcontext + place.context;
  load_exact_tile<kSize>(own_a, kKeys ? k : q, place.row, first, s.seq, size);
  load_exact_tile<kSize>(own_b, kKeys ? v : dout, kKeys ? place.row : place.out_row, first, s.seq, size);
  float first_sum[own_columns] = {}, second_sum[kKeys ? own_columns : 1] = {};  // dk or dq; dv
  for (std::int64_t other = kKeys ? first : 0; kKeys ? other < s.seq : other <= first; other += exact_rows) {
    __syncthreads();
    load_exact_tile<kSize>(other_a, kKeys ? q : k, place.row, other, s.seq, size);
    load_exact_tile<kSize>(other_b, kKeys ? dout : v, kKeys ? place.out_row : place.row, other, s.seq, size);
    __syncthreads();
    for (int o = lane; o < exact_rows; o += exact_lanes) {
      const std::int64_t query = kKeys ? other + o : own, key = kKeys ? own : other + o;
      float p = 0, gradient = 0;
      if (key <= query && query < s.seq) {
        p = expf(scale * exact_dot<kSize>(own_a[r], other_a[o]) - log_sum_exp[place.lse + query]);
        gradient = scale * p * (exact_dot<kSize>(own_b[r], other_b[o]) - delta[place.lse + query]);
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
  if (own >= s.seq) return;
  float* to = dqkv + place.qkv + own * place.row + (kKeys ? s.head_size : 0);
  THINWIRE_UNROLL
  for (int c = 0; c < own_columns; ++c) {
    const int column = c * exact_lanes + lane;
    if (column >= size) continue;
    to[column] = first_sum[c];
    if constexpr (kKeys) to[s.head_size + column] = second_sum[c];
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
