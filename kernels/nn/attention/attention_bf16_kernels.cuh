// Causal attention in bf16 on the matrix units, after FlashAttention-2 (Dao 2023; online softmax: Milakov and Gimelshein 2018): scores,
// probabilities and their gradients live in registers only. A block of four warps owns 64 rows, 16 per warp, and walks over the tiles of the
// other side in shared memory. The backward pass is two kernels, one that owns keys (dk, dv) and one that owns queries (dq): two products
// more than with atomic additions, but the order of sums is fixed. Sums are f32; probabilities and score gradients are rounded to bf16 before
// they are multiplied. Heads narrower than kSize are filled up with zeros.
#pragma once

#include "kernels/cuda/matrix_unit.cuh"
#include "kernels/nn/attention/attention_f32_kernels.cuh"

namespace thinwire::cuda {

constexpr int fused_warps = 4, fused_threads = 32 * fused_warps, fused_rows = 16 * fused_warps;
constexpr int fused_skew = 8;  // elements added to a row in shared memory: neighbouring rows then begin in other banks

/// tile [kRows][kSize + fused_skew] = rows first .. of a matrix with rows of `stride`, zeros beyond `seq` rows and `size` columns.
template <int kSize, int kRows>
__device__ inline void load_fused_tile(BFloat16 (&tile)[kRows][kSize + fused_skew], const BFloat16* from, std::int64_t stride, std::int64_t first,
                                       std::int64_t seq, int size, bool vectors) {
  if (vectors) {
    for (int e = static_cast<int>(threadIdx.x); e < kRows * kSize / 8; e += fused_threads) {
      const int r = e / (kSize / 8), c = e % (kSize / 8) * 8;
      uint4 pack = {};
      if (first + r < seq && c < size) pack = *reinterpret_cast<const uint4*>(from + (first + r) * stride + c);
      *reinterpret_cast<uint4*>(&tile[r][c]) = pack;
    }
    return;
  }
  for (int e = static_cast<int>(threadIdx.x); e < kRows * kSize; e += fused_threads) {
    const int r = e / kSize, c = e % kSize;
    tile[r][c] = first + r < seq && c < size ? from[(first + r) * stride + c] : BFloat16{0};
  }
}

/// The warp's 16 own rows as A fragments, straight from device memory.
template <int kSize>
__device__ inline void load_own_rows(std::uint32_t (&a)[kSize / 16][4], const BFloat16* from, std::int64_t stride, std::int64_t first, std::int64_t seq, int size) {
  const int group = static_cast<int>(threadIdx.x % 32) / 4, pair = static_cast<int>(threadIdx.x % 4);
  THINWIRE_UNROLL
  for (int step = 0; step < kSize / 16; ++step)
    THINWIRE_UNROLL
    for (int r = 0; r < 4; ++r) {
      const std::int64_t row = first + group + 8 * (r % 2);
      const int c = 16 * step + 2 * pair + 8 * (r / 2);
      const std::uint32_t low = row < seq && c < size ? from[row * stride + c].bits : 0;
      const std::uint32_t high = row < seq && c + 1 < size ? from[row * stride + c + 1].bits : 0;
      a[step][r] = low | high << 16;
    }
}

/// scores [16, kRows] += own rows times the rows of `tile`.
template <int kSize, int kRows>
__device__ inline void add_scores(float (&scores)[kRows / 8][4], const std::uint32_t (&own)[kSize / 16][4], const BFloat16 (&tile)[kRows][kSize + fused_skew]) {
  const int group = static_cast<int>(threadIdx.x % 32) / 4, pair = static_cast<int>(threadIdx.x % 4);
  THINWIRE_UNROLL
  for (int step = 0; step < kSize / 16; ++step)
    THINWIRE_UNROLL
    for (int n = 0; n < kRows / 8; ++n) {
      const BFloat16* at = &tile[8 * n + group][16 * step + 2 * pair];
      const std::uint32_t b[2] = {*reinterpret_cast<const std::uint32_t*>(at), *reinterpret_cast<const std::uint32_t*>(at + 8)};
      multiply_tiles(scores[n], own[step], b);
    }
}

/// sums [16, kSize] += weights [16, kRows], rounded to bf16, times the rows of `tile`.
template <int kSize, int kRows>
__device__ inline void add_weighted_rows(float (&sums)[kSize / 8][4], const float (&weights)[kRows / 8][4], const BFloat16 (&tile)[kRows][kSize + fused_skew]) {
  THINWIRE_UNROLL
  for (int step = 0; step < kRows / 16; ++step) {
    const float(&low)[4] = weights[2 * step];
    const float(&high)[4] = weights[2 * step + 1];
    const std::uint32_t a[4] = {pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]), pack_bf16(high[0], high[1]), pack_bf16(high[2], high[3])};
    THINWIRE_UNROLL
    for (int n = 0; n < kSize / 8; ++n) {
      std::uint32_t b[2];
      load_rows_as_b(b, &tile[16 * step + static_cast<int>(threadIdx.x % 16)][8 * n]);
      multiply_tiles(sums[n], a, b);
    }
  }
}

/// Rows first .. of `to` = factor of the row times sums.
template <int kSize>
__device__ inline void store_own_rows(BFloat16* to, std::int64_t stride, std::int64_t first, std::int64_t seq, int size, const float (&sums)[kSize / 8][4],
                                      float factor_low, float factor_high, bool vectors) {
  const int group = static_cast<int>(threadIdx.x % 32) / 4, pair = static_cast<int>(threadIdx.x % 4);
  THINWIRE_UNROLL
  for (int n = 0; n < kSize / 8; ++n)
    THINWIRE_UNROLL
    for (int h = 0; h < 2; ++h) {
      const std::int64_t row = first + group + 8 * h;
      const int c = 8 * n + 2 * pair;
      if (row >= seq || c >= size) continue;
      const float factor = h == 0 ? factor_low : factor_high, a = sums[n][2 * h] * factor, b = sums[n][2 * h + 1] * factor;
      BFloat16* at = to + row * stride + c;
      if (vectors) {
        *reinterpret_cast<std::uint32_t*>(at) = pack_bf16(a, b);
      } else {
        store_value(at, a);
        if (c + 1 < size) store_value(at + 1, b);
      }
    }
}

template <int kSize>
__global__ void __launch_bounds__(fused_threads, kSize == 64 ? 3 : 2) attention_forward_bf16(nn::AttentionShape s, float scale, const BFloat16* __restrict__ qkv,
                                                                        BFloat16* __restrict__ context, float* __restrict__ log_sum_exp, bool vectors) {
  constexpr int tile_rows = 32;
  alignas(16) __shared__ BFloat16 keys[tile_rows][kSize + fused_skew];
  alignas(16) __shared__ BFloat16 values[tile_rows][kSize + fused_skew];
  const std::int64_t tiles = (s.seq + fused_rows - 1) / fused_rows;
  const HeadPlace place(s, blockIdx.x / tiles);
  const std::int64_t block_first = (tiles - 1 - blockIdx.x % tiles) * fused_rows;  // long rows first
  const std::int64_t first = block_first + threadIdx.x / 32 * 16;
  const int size = static_cast<int>(s.head_size), group = static_cast<int>(threadIdx.x % 32) / 4, pair = static_cast<int>(threadIdx.x % 4);
  const BFloat16* q = qkv + place.qkv;
  std::uint32_t own[kSize / 16][4];
  load_own_rows<kSize>(own, q, place.row, first, s.seq, size);
  float out[kSize / 8][4] = {}, largest[2] = {no_score, no_score}, sum[2] = {};
  const std::int64_t end = block_first + fused_rows < s.seq ? block_first + fused_rows : s.seq;
  for (std::int64_t key = 0; key < end; key += tile_rows) {
    __syncthreads();
    load_fused_tile<kSize>(keys, q + s.head_size, place.row, key, s.seq, size, vectors);
    load_fused_tile<kSize>(values, q + 2 * s.head_size, place.row, key, s.seq, size, vectors);
    __syncthreads();
    float scores[tile_rows / 8][4] = {};
    add_scores<kSize, tile_rows>(scores, own, keys);
    float tile_largest[2] = {largest[0], largest[1]};
    THINWIRE_UNROLL
    for (int n = 0; n < tile_rows / 8; ++n)
      THINWIRE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const std::int64_t query = first + group + 8 * (i / 2), at = key + 8 * n + 2 * pair + i % 2;
        scores[n][i] = at <= query && at < s.seq ? scale * scores[n][i] : no_score;
        tile_largest[i / 2] = fmaxf(tile_largest[i / 2], scores[n][i]);
      }
    THINWIRE_UNROLL
    for (int h = 0; h < 2; ++h) {
      tile_largest[h] = fmaxf(tile_largest[h], __shfl_xor_sync(all_lanes, tile_largest[h], 1));
      tile_largest[h] = fmaxf(tile_largest[h], __shfl_xor_sync(all_lanes, tile_largest[h], 2));
      const float shrink = expf(largest[h] - tile_largest[h]);
      largest[h] = tile_largest[h];
      sum[h] *= shrink;
      THINWIRE_UNROLL
      for (int n = 0; n < kSize / 8; ++n) out[n][2 * h] *= shrink, out[n][2 * h + 1] *= shrink;
    }
    THINWIRE_UNROLL
    for (int n = 0; n < tile_rows / 8; ++n)
      THINWIRE_UNROLL
      for (int i = 0; i < 4; ++i) {
        scores[n][i] = scores[n][i] == no_score ? 0.0f : expf(scores[n][i] - largest[i / 2]);
        sum[i / 2] += scores[n][i];
      }
    add_weighted_rows<kSize, tile_rows>(out, scores, values);
  }
  THINWIRE_UNROLL
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(all_lanes, sum[h], 1);
    sum[h] += __shfl_xor_sync(all_lanes, sum[h], 2);
    const std::int64_t query = first + group + 8 * h;
    if (pair == 0 && query < s.seq) log_sum_exp[place.lse + query] = largest[h] + logf(sum[h]);
  }
  store_own_rows<kSize>(context + place.context, place.out_row, first, s.seq, size, out, 1.0f / sum[0], 1.0f / sum[1], vectors);
}

/// kKeys: the block owns keys and makes dk and dv from the queries at and after them; else it owns queries and makes dq from the keys up to them.
template <int kSize, bool kKeys>
__global__ void __launch_bounds__(fused_threads) attention_backward_bf16(nn::AttentionShape s, float scale, const BFloat16* __restrict__ qkv,
                                                                         const float* __restrict__ log_sum_exp, const float* __restrict__ delta,
                                                                         const BFloat16* __restrict__ dcontext, BFloat16* __restrict__ dqkv, bool vectors) {
  constexpr int tile_rows = kKeys && kSize == 128 ? 16 : 32;  // where two results of 128 columns leave few registers
  alignas(16) __shared__ BFloat16 other_a[tile_rows][kSize + fused_skew];
  alignas(16) __shared__ BFloat16 other_b[tile_rows][kSize + fused_skew];
  __shared__ float lse[kKeys ? tile_rows : fused_rows], dot[kKeys ? tile_rows : fused_rows];  // of queries
  const std::int64_t tiles = (s.seq + fused_rows - 1) / fused_rows;
  const HeadPlace place(s, blockIdx.x / tiles);
  const std::int64_t block_first = (kKeys ? blockIdx.x % tiles : tiles - 1 - blockIdx.x % tiles) * fused_rows;  // long ones first
  const int warp_row = static_cast<int>(threadIdx.x / 32) * 16;
  const std::int64_t first = block_first + warp_row;
  const int size = static_cast<int>(s.head_size), group = static_cast<int>(threadIdx.x % 32) / 4, pair = static_cast<int>(threadIdx.x % 4);
  const BFloat16 *q = qkv + place.qkv, *k = q + s.head_size, *v = k + s.head_size, *dout = dcontext + place.context;
  std::uint32_t own_a[kSize / 16][4], own_b[kSize / 16][4];
  load_own_rows<kSize>(own_a, kKeys ? k : q, place.row, first, s.seq, size);
  load_own_rows<kSize>(own_b, kKeys ? v : dout, kKeys ? place.row : place.out_row, first, s.seq, size);
  const auto load_statistics = [&](std::int64_t query, int count) {
    for (int r = static_cast<int>(threadIdx.x); r < count; r += fused_threads) {
      lse[r] = query + r < s.seq ? log_sum_exp[place.lse + query + r] : 0.0f;
      dot[r] = query + r < s.seq ? delta[place.lse + query + r] : 0.0f;
    }
  };
  if (!kKeys) load_statistics(block_first, fused_rows);
  float first_sum[kSize / 8][4] = {}, second_sum[kKeys ? kSize / 8 : 1][4] = {};  // dk or dq; dv
  const std::int64_t end = kKeys || block_first + fused_rows > s.seq ? s.seq : block_first + fused_rows;
  for (std::int64_t other = kKeys ? block_first : 0; other < end; other += tile_rows) {
    __syncthreads();
    load_fused_tile<kSize>(other_a, kKeys ? q : k, place.row, other, s.seq, size, vectors);
    load_fused_tile<kSize>(other_b, kKeys ? dout : v, kKeys ? place.out_row : place.row, other, s.seq, size, vectors);
    if (kKeys) load_statistics(other, tile_rows);
    __syncthreads();
    float p[tile_rows / 8][4] = {}, gradient[tile_rows / 8][4] = {};
    add_scores<kSize, tile_rows>(p, own_a, other_a);
    add_scores<kSize, tile_rows>(gradient, own_b, other_b);
    THINWIRE_UNROLL
    for (int n = 0; n < tile_rows / 8; ++n)
      THINWIRE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = group + 8 * (i / 2), column = 8 * n + 2 * pair + i % 2;
        const std::int64_t query = kKeys ? other + column : first + row, key = kKeys ? first + row : other + column;
        const int at = kKeys ? column : warp_row + row;
        const bool visible = key <= query && query < s.seq;
        p[n][i] = visible ? expf(scale * p[n][i] - lse[at]) : 0.0f;
        gradient[n][i] = scale * p[n][i] * (gradient[n][i] - dot[at]);
      }
    add_weighted_rows<kSize, tile_rows>(first_sum, gradient, other_a);
    if constexpr (kKeys) add_weighted_rows<kSize, tile_rows>(second_sum, p, other_b);
  }
  BFloat16* to = dqkv + place.qkv + (kKeys ? s.head_size : 0);
  store_own_rows<kSize>(to, place.row, first, s.seq, size, first_sum, 1.0f, 1.0f, vectors);
  if constexpr (kKeys) store_own_rows<kSize>(to + s.head_size, place.row, first, s.seq, size, second_sum, 1.0f, 1.0f, vectors);
}

}  // namespace thinwire::cuda
