#include "kernels/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/nn/gemm.h"
#include "kernels/nn/softmax.h"
#include "kernels/threads.h"

namespace thinwire::nn {
namespace {

/// Queries per block: scores of a block against 512 keys are 128 KiB in f32 and stay in the second-level
/// cache.
constexpr std::int64_t query_block = 64;

/// Pointers and strides of one (sequence, head).
template <typename T>
struct Head {
  std::int64_t qkv_offset, context_offset, lse_offset;
  Head(const AttentionShape& s, std::int64_t item) {
    const std::int64_t sequence = item / s.heads, head = item % s.heads;
    qkv_offset = sequence * s.seq * 3 * s.hidden() + head * 3 * s.head_size;
    context_offset = sequence * s.seq * s.hidden() + head * s.head_size;
    lse_offset = item * s.seq;
  }
};

/// Runs body(head, scratch) for every (sequence, head), spread over the threads.
template <typename T, typename Body>
void for_heads(const AttentionShape& s, std::int64_t scratch_elements, const Body& body) {
  parallel_ranges(s.batch * s.heads, 1, 1, [&](std::int64_t begin, std::int64_t end, int) {
    thread_local std::vector<T> scratch;
    if (static_cast<std::int64_t>(scratch.size()) < scratch_elements)
      scratch.resize(static_cast<std::size_t>(scratch_elements));
    for (std::int64_t item = begin; item < end; ++item) body(Head<T>(s, item), scratch.data());
  });
}

}  // namespace

template <typename T>
void attention_forward(const AttentionShape& s, const T* qkv, T* context, T* log_sum_exp) {
  const T scale = T{1} / std::sqrt(static_cast<T>(s.head_size));
  const std::int64_t row = 3 * s.hidden(), d = s.head_size;
  for_heads<T>(s, query_block * s.seq, [&](const Head<T>& head, T* scores) {
    const T *q = qkv + head.qkv_offset, *k = q + d, *v = k + d;
    for (std::int64_t first = 0; first < s.seq; first += query_block) {
      const std::int64_t queries = std::min(query_block, s.seq - first), keys = first + queries;
      gemm<T>(Transpose::no, Transpose::yes, queries, keys, d, T{1}, q + first * row, row, k, row, T{0},
              scores, keys);
      causal_softmax<T>(queries, keys, first, scale, scores, log_sum_exp + head.lse_offset + first);
      gemm<T>(Transpose::no, Transpose::no, queries, d, keys, T{1}, scores, keys, v, row, T{0},
              context + head.context_offset + first * s.hidden(), s.hidden());
    }
  });
}

template <typename T>
void attention_backward(const AttentionShape& s, const T* qkv, const T* context, const T* log_sum_exp,
                        const T* dcontext, T* dqkv) {
  const T scale = T{1} / std::sqrt(static_cast<T>(s.head_size));
  const std::int64_t row = 3 * s.hidden(), d = s.head_size, out_row = s.hidden();
  for_heads<T>(s, 2 * query_block * s.seq, [&](const Head<T>& head, T* scratch) {
    const T *q = qkv + head.qkv_offset, *k = q + d, *v = k + d;
    T *dq = dqkv + head.qkv_offset, *dk = dq + d, *dv = dk + d;
    T *scores = scratch, *gradient = scratch + query_block * s.seq;
    T delta[query_block];
    // Blocks go from the last to the first: the last sees every key, so its products (beta = 0) start the
    // sums.
    for (std::int64_t first = (s.seq - 1) / query_block * query_block; first >= 0; first -= query_block) {
      const std::int64_t queries = std::min(query_block, s.seq - first), keys = first + queries;
      const T beta = keys == s.seq ? T{0} : T{1};
      const T* out = context + head.context_offset + first * out_row;
      const T* dout = dcontext + head.context_offset + first * out_row;
      gemm<T>(Transpose::no, Transpose::yes, queries, keys, d, T{1}, q + first * row, row, k, row, T{0},
              scores, keys);
      causal_probabilities<T>(queries, keys, first, scale, scores, log_sum_exp + head.lse_offset + first);
      gemm<T>(Transpose::yes, Transpose::no, keys, d, queries, T{1}, scores, keys, dout, out_row, beta, dv,
              row);
      gemm<T>(Transpose::no, Transpose::yes, queries, keys, d, T{1}, dout, out_row, v, row, T{0}, gradient,
              keys);
      for (std::int64_t r = 0; r < queries; ++r) {  // sum over keys of P * dP = dout . out
        T sum = 0;
        for (std::int64_t c = 0; c < d; ++c) sum += out[r * out_row + c] * dout[r * out_row + c];
        delta[r] = sum;
      }
      softmax_gradient<T>(queries, keys, scale, scores, delta, gradient);
      gemm<T>(Transpose::no, Transpose::no, queries, d, keys, T{1}, gradient, keys, k, row, T{0},
              dq + first * row, row);
      gemm<T>(Transpose::yes, Transpose::no, keys, d, queries, T{1}, gradient, keys, q + first * row, row,
              beta, dk, row);
    }
  });
}

template void attention_forward<float>(const AttentionShape&, const float*, float*, float*);
template void attention_forward<double>(const AttentionShape&, const double*, double*, double*);
template void attention_backward<float>(const AttentionShape&, const float*, const float*, const float*,
                                        const float*, float*);
template void attention_backward<double>(const AttentionShape&, const double*, const double*, const double*,
                                         const double*, double*);

}  // namespace thinwire::nn
