#include "kernels/nn/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/nn/gemm/gemm.h"
#include "kernels/nn/softmax.h"
#include "kernels/threads.h"

namespace thinwire::nn {
namespace {

/// Queries per block: scores of a block against 512 keys are 128 KiB in f32 and stay in the second-level
/// cache.
constexpr std::int64_t query_block = 64;

/// One (sequence, head): queries are the tokens [first, first + count) of the sequence, keys and values its tokens
/// from 0 on. `*_row`: elements from one token to the next.
template <typename T>
struct Operands {
  const T *q, *k, *v;
  std::int64_t q_row, kv_row, first, count, head_size;
  std::int64_t both_ways = 0;  ///< keys that every query sees; 0: causal, each sees those not after it

  /// Keys that some query of a block ending before token `end` sees.
  std::int64_t keys(std::int64_t end) const { return both_ways > 0 ? both_ways : end; }
  /// Token that a block's first query is for the causal softmax: the last key's sees all of them.
  std::int64_t place(std::int64_t start) const { return both_ways > 0 ? both_ways - 1 : start; }
  std::int64_t all_keys() const { return keys(first + count); }
};

/// What attention made and the gradient of it, of one (sequence, head).
template <typename T>
struct Results {
  const T *context, *dcontext, *log_sum_exp;
  std::int64_t row;
};

/// Runs body(item, scratch) for every (sequence, head), spread over the threads.
template <typename T, typename Body>
void for_heads(std::int64_t items, std::int64_t scratch_elements, const Body& body) {
  parallel_ranges(items, 1, 1, [&](std::int64_t begin, std::int64_t end, int) {
    thread_local std::vector<T> scratch;
    if (static_cast<std::int64_t>(scratch.size()) < scratch_elements)
      scratch.resize(static_cast<std::size_t>(scratch_elements));
    for (std::int64_t item = begin; item < end; ++item) body(item, scratch.data());
  });
}

template <typename T>
void forward_head(const Operands<T>& o, T* scores, T* context, std::int64_t context_row, T* log_sum_exp) {
  const T scale = T{1} / std::sqrt(static_cast<T>(o.head_size));
  for (std::int64_t block = 0; block < o.count; block += query_block) {
    const std::int64_t queries = std::min(query_block, o.count - block), start = o.first + block, keys = o.keys(start + queries);
    gemm<T>(Transpose::no, Transpose::yes, queries, keys, o.head_size, T{1}, o.q + block * o.q_row, o.q_row, o.k, o.kv_row, T{0},
            scores, keys);
    causal_softmax<T>(queries, keys, o.place(start), scale, scores, log_sum_exp + block);
    gemm<T>(Transpose::no, Transpose::no, queries, o.head_size, keys, T{1}, scores, keys, o.v, o.kv_row, T{0},
            context + block * context_row, context_row);
  }
}

/// dq (rows of o.q_row) is overwritten; dk and dv (rows of o.kv_row) are added to, or begun where `fresh`.
/// scratch: 2 query_block all_keys elements.
template <typename T>
void backward_head(const Operands<T>& o, const Results<T>& r, bool fresh, T* scratch, T* dq, T* dk, T* dv) {
  const T scale = T{1} / std::sqrt(static_cast<T>(o.head_size));
  const std::int64_t d = o.head_size, all_keys = o.all_keys();
  T *scores = scratch, *gradient = scratch + query_block * all_keys;
  T delta[query_block];
  // Blocks go from the last to the first: the last sees every key, so its products (beta = 0) can start the sums.
  for (std::int64_t block = (o.count - 1) / query_block * query_block; block >= 0; block -= query_block) {
    const std::int64_t queries = std::min(query_block, o.count - block), start = o.first + block, keys = o.keys(start + queries);
    const T beta = fresh && block + queries == o.count ? T{0} : T{1};
    const T *q = o.q + block * o.q_row, *out = r.context + block * r.row, *dout = r.dcontext + block * r.row;
    gemm<T>(Transpose::no, Transpose::yes, queries, keys, d, T{1}, q, o.q_row, o.k, o.kv_row, T{0}, scores, keys);
    causal_probabilities<T>(queries, keys, o.place(start), scale, scores, r.log_sum_exp + block);
    gemm<T>(Transpose::yes, Transpose::no, keys, d, queries, T{1}, scores, keys, dout, r.row, beta, dv, o.kv_row);
    gemm<T>(Transpose::no, Transpose::yes, queries, keys, d, T{1}, dout, r.row, o.v, o.kv_row, T{0}, gradient, keys);
    for (std::int64_t n = 0; n < queries; ++n) {  // sum over keys of P * dP = dout . out
      T sum = 0;
      for (std::int64_t c = 0; c < d; ++c) sum += out[n * r.row + c] * dout[n * r.row + c];
      delta[n] = sum;
    }
    softmax_gradient<T>(queries, keys, scale, scores, delta, gradient);
    gemm<T>(Transpose::no, Transpose::no, queries, d, keys, T{1}, gradient, keys, o.k, o.kv_row, T{0}, dq + block * o.q_row, o.q_row);
    gemm<T>(Transpose::yes, Transpose::no, keys, d, queries, T{1}, gradient, keys, q, o.q_row, beta, dk, o.kv_row);
  }
}

/// Where one (sequence, head) lies in qkv, context and log_sum_exp of `tokens` tokens per sequence.
struct Head {
  std::int64_t qkv, context, lse;
  Head(std::int64_t item, std::int64_t tokens, std::int64_t heads, std::int64_t head_size) {
    const std::int64_t sequence = item / heads, head = item % heads, hidden = heads * head_size;
    qkv = sequence * tokens * 3 * hidden + head * 3 * head_size;
    context = sequence * tokens * hidden + head * head_size;
    lse = item * tokens;
  }
};

/// Where it lies in the cache.
std::int64_t cache_offset(const AttentionSlice& s, std::int64_t item) {
  return (item / s.heads * s.length * s.heads + item % s.heads) * 2 * s.head_size;
}

template <typename T>
Operands<T> operands(const AttentionSlice& s, const Head& head, std::int64_t item, const T* qkv, const T* cache) {
  const T* k = cache + cache_offset(s, item);
  return {qkv + head.qkv, k, k + s.head_size, 3 * s.hidden(), 2 * s.hidden(), s.first, s.tokens, s.head_size};
}

// bf16 on a device: operands are rounded into the workspace, and results widened from it.
bool rounds(const AttentionShape& s, ComputeType compute) { return compute == ComputeType::bf16 && s.head_size <= 128; }

void convert(int from_type, int to_type, std::int64_t count, const void* from, void* to) {
  device::queue<float>(device::entries().copy_rows, from_type, to_type, std::int64_t{1}, count, from, count, to, count);
}

/// Bytes of a bf16 tensor, so that the one behind it begins on 16.
std::int64_t rounded_bytes(std::int64_t count) { return (count + 7) / 8 * 16; }

void forward_rounded(const AttentionShape& s, const float* qkv, float* context, float* log_sum_exp) {
  const std::int64_t n = s.batch * s.seq * s.hidden();
  std::byte* in = device::workspace(static_cast<std::size_t>(rounded_bytes(3 * n) + rounded_bytes(n)));
  std::byte* out = in + rounded_bytes(3 * n);
  convert(device_f32, device_bf16, 3 * n, qkv, in);
  device::queue<float>(device::entries().attention_forward, device_bf16, s.batch, s.seq, s.heads, s.head_size, in, out, log_sum_exp);
  convert(device_bf16, device_f32, n, out, context);
}

void backward_rounded(const AttentionShape& s, const float* qkv, const float* context, const float* log_sum_exp, const float* dcontext, float* dqkv) {
  const std::int64_t n = s.batch * s.seq * s.hidden(), wide = rounded_bytes(3 * n), narrow = rounded_bytes(n);
  std::byte* in = device::workspace(static_cast<std::size_t>(2 * wide + 2 * narrow) + attention_workspace_bytes(s.batch, s.seq, s.heads));
  std::byte *out = in + wide, *made = out + wide, *gradient = made + narrow, *space = gradient + narrow;
  convert(device_f32, device_bf16, 3 * n, qkv, in);
  convert(device_f32, device_bf16, n, context, made);
  convert(device_f32, device_bf16, n, dcontext, gradient);
  device::queue<float>(device::entries().attention_backward, device_bf16, s.batch, s.seq, s.heads, s.head_size, in, made, log_sum_exp, gradient, out, space);
  convert(device_bf16, device_f32, 3 * n, out, dqkv);
}

}  // namespace

template <typename T>
void attention_forward(const AttentionShape& s, const T* qkv, T* context, T* log_sum_exp, ComputeType compute) {
  if constexpr (sizeof(T) == 4)
    if (device::on_device() && rounds(s, compute)) return forward_rounded(s, qkv, context, log_sum_exp);
  if (device::on_device())
    return device::queue<T>(device::entries().attention_forward, device_f32, s.batch, s.seq, s.heads, s.head_size, qkv, context, log_sum_exp);
  const std::int64_t row = 3 * s.hidden(), d = s.head_size;
  for_heads<T>(s.batch * s.heads, query_block * s.seq, [&](std::int64_t item, T* scores) {
    const Head head(item, s.seq, s.heads, d);
    const T* q = qkv + head.qkv;
    forward_head<T>({q, q + d, q + 2 * d, row, row, 0, s.seq, d}, scores, context + head.context, s.hidden(), log_sum_exp + head.lse);
  });
}

template <typename T>
void attention_backward(const AttentionShape& s, const T* qkv, const T* context, const T* log_sum_exp,
                        const T* dcontext, T* dqkv, ComputeType compute) {
  if constexpr (sizeof(T) == 4)
    if (device::on_device() && rounds(s, compute)) return backward_rounded(s, qkv, context, log_sum_exp, dcontext, dqkv);
  if (device::on_device())
    return device::queue<T>(device::entries().attention_backward, device_f32, s.batch, s.seq, s.heads, s.head_size, qkv, context, log_sum_exp, dcontext, dqkv,
                            device::workspace(attention_workspace_bytes(s.batch, s.seq, s.heads)));
  const std::int64_t row = 3 * s.hidden(), d = s.head_size;
  for_heads<T>(s.batch * s.heads, 2 * query_block * s.seq, [&](std::int64_t item, T* scratch) {
    const Head head(item, s.seq, s.heads, d);
    const T* q = qkv + head.qkv;
    T* dq = dqkv + head.qkv;
    backward_head<T>({q, q + d, q + 2 * d, row, row, 0, s.seq, d},
                     {context + head.context, dcontext + head.context, log_sum_exp + head.lse, s.hidden()}, true, scratch, dq, dq + d,
                     dq + 2 * d);
  });
}

namespace {

/// Keys of the sequence that an item belongs to.
std::int64_t seen_keys(const AttentionShape& s, const std::int32_t* lengths, std::int64_t item) {
  if (device::on_device()) throw UsageError("Attention in both directions has no form for devices yet; use the host (--device host)");
  if (lengths == nullptr) return s.seq;
  const std::int64_t length = lengths[item / s.heads];
  if (length < 1 || length > s.seq)
    throw CorruptData("Sequence " + std::to_string(item / s.heads) + " has a length of " + std::to_string(length) + ", outside 1 .. " + std::to_string(s.seq) +
                      ". Check the lengths handed to the model.");
  return length;
}

}  // namespace

template <typename T>
void padded_attention_forward(const AttentionShape& s, const std::int32_t* lengths, const T* qkv, T* context, T* log_sum_exp) {
  const std::int64_t row = 3 * s.hidden(), d = s.head_size, items = s.batch * s.heads;
  for (std::int64_t item = 0; item < items; item += s.heads) (void)seen_keys(s, lengths, item);  // no thread may throw alone
  for_heads<T>(items, query_block * s.seq, [&](std::int64_t item, T* scores) {
    const Head head(item, s.seq, s.heads, d);
    const T* q = qkv + head.qkv;
    forward_head<T>({q, q + d, q + 2 * d, row, row, 0, s.seq, d, seen_keys(s, lengths, item)}, scores, context + head.context, s.hidden(),
                    log_sum_exp + head.lse);
  });
}

template <typename T>
void padded_attention_backward(const AttentionShape& s, const std::int32_t* lengths, const T* qkv, const T* context, const T* log_sum_exp,
                               const T* dcontext, T* dqkv) {
  const std::int64_t row = 3 * s.hidden(), d = s.head_size, items = s.batch * s.heads;
  for (std::int64_t item = 0; item < items; item += s.heads) (void)seen_keys(s, lengths, item);
  for_heads<T>(items, 2 * query_block * s.seq, [&](std::int64_t item, T* scratch) {
    const Head head(item, s.seq, s.heads, d);
    const T* q = qkv + head.qkv;
    T* dq = dqkv + head.qkv;
    const std::int64_t keys = seen_keys(s, lengths, item);
    backward_head<T>({q, q + d, q + 2 * d, row, row, 0, s.seq, d, keys},
                     {context + head.context, dcontext + head.context, log_sum_exp + head.lse, s.hidden()}, true, scratch, dq, dq + d, dq + 2 * d);
    for (std::int64_t t = keys; t < s.seq; ++t) std::fill_n(dq + t * row + d, 2 * d, T{0});
  });
}

template <typename T>
void attention_slice_forward(const AttentionSlice& s, const T* qkv, T* cache, T* context, T* log_sum_exp) {
  if (device::on_device())
    return device::queue<T>(device::entries().attention_slice_forward, s.batch, s.tokens, s.first, s.length, s.heads, s.head_size, qkv, cache, context,
                            log_sum_exp);
  const std::int64_t d = s.head_size;
  for_heads<T>(s.batch * s.heads, query_block * (s.first + s.tokens), [&](std::int64_t item, T* scores) {
    const Head head(item, s.tokens, s.heads, d);
    T* own = cache + cache_offset(s, item) + s.first * 2 * s.hidden();
    for (std::int64_t t = 0; t < s.tokens; ++t) std::copy_n(qkv + head.qkv + t * 3 * s.hidden() + d, 2 * d, own + t * 2 * s.hidden());
    forward_head<T>(operands<T>(s, head, item, qkv, cache), scores, context + head.context, s.hidden(), log_sum_exp + head.lse);
  });
}

template <typename T>
void attention_slice_backward(const AttentionSlice& s, const T* qkv, const T* cache, const T* context, const T* log_sum_exp,
                              const T* dcontext, T* dcache, T* dqkv) {
  if (device::on_device())
    return device::queue<T>(device::entries().attention_slice_backward, s.batch, s.tokens, s.first, s.length, s.heads, s.head_size, qkv, cache, context,
                            log_sum_exp, dcontext, dcache, dqkv, device::workspace(attention_workspace_bytes(s.batch, s.tokens, s.heads)));
  const std::int64_t d = s.head_size;
  for_heads<T>(s.batch * s.heads, 2 * query_block * (s.first + s.tokens), [&](std::int64_t item, T* scratch) {
    const Head head(item, s.tokens, s.heads, d);
    T *dk = dcache + cache_offset(s, item), *dq = dqkv + head.qkv;
    backward_head<T>(operands<T>(s, head, item, qkv, cache),
                     {context + head.context, dcontext + head.context, log_sum_exp + head.lse, s.hidden()},
                     s.first + s.tokens == s.length, scratch, dq, dk, dk + d);
    const T* own = dk + s.first * 2 * s.hidden();
    for (std::int64_t t = 0; t < s.tokens; ++t) std::copy_n(own + t * 2 * s.hidden(), 2 * d, dq + t * 3 * s.hidden() + d);
  });
}

#define TW_INSTANTIATE(T)                                                                                                   \
  template void attention_forward<T>(const AttentionShape&, const T*, T*, T*, ComputeType);                                 \
  template void attention_backward<T>(const AttentionShape&, const T*, const T*, const T*, const T*, T*, ComputeType);      \
  template void padded_attention_forward<T>(const AttentionShape&, const std::int32_t*, const T*, T*, T*);                  \
  template void padded_attention_backward<T>(const AttentionShape&, const std::int32_t*, const T*, const T*, const T*, const T*, T*); \
  template void attention_slice_forward<T>(const AttentionSlice&, const T*, T*, T*, T*);                                    \
  template void attention_slice_backward<T>(const AttentionSlice&, const T*, const T*, const T*, const T*, const T*, T*, T*)
TW_INSTANTIATE(float);
TW_INSTANTIATE(double);
#undef TW_INSTANTIATE

}  // namespace thinwire::nn
