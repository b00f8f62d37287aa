// CUDA implementation of kernels/nn/attention/attention.cpp: fused, causal; f32 on the ordinary units, bf16 on the matrix units.
#include "kernels/cuda/map.cuh"
#include "kernels/nn/attention/attention_bf16_kernels.cuh"
#include "kernels/nn/attention/attention_wide_kernels.cuh"
#include "kernels/nn/device/types.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_attention_forward, thinwire_cuda_attention_forward_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_attention_backward, thinwire_cuda_attention_backward_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_attention_slice_forward, thinwire_cuda_attention_slice_forward_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_attention_slice_backward, thinwire_cuda_attention_slice_backward_fn);

namespace {

float scale_of(std::int64_t head_size) { return 1.0f / std::sqrt(static_cast<float>(head_size)); }

AttentionTokens whole_tokens(const nn::AttentionShape& s) {
  const std::int64_t row = 3 * s.hidden(), head = 3 * s.head_size;
  return {s.batch, s.heads, s.head_size, s.seq, 0, s.seq, row, head, s.seq * row, row, head, s.seq * row};
}
AttentionTokens slice_tokens(const nn::AttentionSlice& s) {
  const std::int64_t row = 3 * s.hidden(), cached = 2 * s.hidden();
  return {s.batch, s.heads, s.head_size, s.tokens, s.first, s.first + s.tokens, row, 3 * s.head_size, s.tokens * row, cached, 2 * s.head_size, s.length * cached};
}

cudaError_t forward_f32(const AttentionTokens& s, const float* q, const float* k, const float* v, float* context, float* log_sum_exp, void* stream) {
  const float scale = scale_of(s.head_size);
  if (s.head_size > 128)
    return launch(attention_forward_wide, ceil_divide(s.items() * s.queries, wide_warps), wide_threads, stream, s, scale, q, k, v, context, log_sum_exp);
  const auto kernel = s.head_size <= 64 ? attention_forward_f32<64> : attention_forward_f32<128>;
  return launch(kernel, s.items() * ceil_divide(s.queries, exact_rows), exact_threads, stream, s, scale, q, k, v, context, log_sum_exp);
}

template <int kSize>
cudaError_t backward_tiles(const AttentionTokens& s, float scale, const AttentionGradients& g, void* stream) {
  if (const auto e = launch(attention_backward_f32<kSize, true>, s.items() * ceil_divide(s.keys, exact_rows), exact_threads, stream, s, scale, g);
      e != cudaSuccess)
    return e;
  return launch(attention_backward_f32<kSize, false>, s.items() * ceil_divide(s.queries, exact_rows), exact_threads, stream, s, scale, g);
}

cudaError_t backward_f32(const AttentionTokens& s, const AttentionGradients& g, void* stream) {
  const float scale = scale_of(s.head_size);
  if (s.head_size <= 128) return s.head_size <= 64 ? backward_tiles<64>(s, scale, g, stream) : backward_tiles<128>(s, scale, g, stream);
  if (const auto e = launch(attention_backward_wide<true>, ceil_divide(s.items() * s.keys, wide_warps), wide_threads, stream, s, scale, g); e != cudaSuccess)
    return e;
  return launch(attention_backward_wide<false>, ceil_divide(s.items() * s.queries, wide_warps), wide_threads, stream, s, scale, g);
}

template <int kSize>
cudaError_t backward_bf16(const nn::AttentionShape& s, float scale, const BFloat16* qkv, const float* lse, const float* delta, const BFloat16* dcontext,
                          BFloat16* dqkv, bool vectors, void* stream) {
  const std::int64_t blocks = s.batch * s.heads * ceil_divide(s.seq, fused_rows);
  if (const auto e = launch(attention_backward_bf16<kSize, true>, blocks, fused_threads, stream, s, scale, qkv, lse, delta, dcontext, dqkv, vectors);
      e != cudaSuccess)
    return e;
  return launch(attention_backward_bf16<kSize, false>, blocks, fused_threads, stream, s, scale, qkv, lse, delta, dcontext, dqkv, vectors);
}

template <typename T>
cudaError_t row_dots(const nn::AttentionShape& s, const void* context, const void* dcontext, float* delta, void* stream) {
  return launch(attention_delta<T>, ceil_divide(s.batch * s.heads * s.seq, 8), 256, stream, s, static_cast<const T*>(context), static_cast<const T*>(dcontext), delta);
}

}  // namespace

int thinwire_cuda_attention_forward(int type, std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t head_size, const void* qkv,
                                    void* context, float* log_sum_exp, int ordinal, void* stream) {
  const nn::AttentionShape s{batch, seq, heads, head_size};
  if (head_size > 128 && type == device_bf16) return cudaErrorNotSupported;
  if (head_size < 1) return cudaErrorInvalidValue;
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const auto *in = static_cast<const T*>(qkv);
    auto* out = static_cast<T*>(context);
    if constexpr (sizeof(T) == 4) {
      return forward_f32(whole_tokens(s), in, in + head_size, in + 2 * head_size, out, log_sum_exp, stream);
    } else {
      const auto kernel = head_size <= 64 ? attention_forward_bf16<64> : attention_forward_bf16<128>;
      return launch(kernel, batch * heads * ceil_divide(seq, fused_rows), fused_threads, stream, s, scale_of(head_size), in, out, log_sum_exp,
                    packs_rows<T>(head_size, {qkv, context}));
    }
  });
}

int thinwire_cuda_attention_backward(int type, std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t head_size, const void* qkv,
                                     const void* context, const float* log_sum_exp, const void* dcontext, void* dqkv, void* workspace, int ordinal,
                                     void* stream) {
  const nn::AttentionShape s{batch, seq, heads, head_size};
  if (head_size > 128 && type == device_bf16) return cudaErrorNotSupported;
  if (head_size < 1) return cudaErrorInvalidValue;
  auto* delta = static_cast<float*>(workspace);
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    if (const auto e = row_dots<T>(s, context, dcontext, delta, stream); e != cudaSuccess) return e;
    const auto *in = static_cast<const T*>(qkv), *gradient = static_cast<const T*>(dcontext);
    auto* out = static_cast<T*>(dqkv);
    if constexpr (sizeof(T) == 4) {
      const AttentionGradients g{in, in + head_size, in + 2 * head_size, log_sum_exp, delta, gradient, out, out + head_size, out + 2 * head_size, nullptr, false};
      return backward_f32(whole_tokens(s), g, stream);
    } else {
      const bool vectors = packs_rows<T>(head_size, {qkv, dcontext, dqkv});
      const float scale = scale_of(head_size);
      return head_size <= 64 ? backward_bf16<64>(s, scale, in, log_sum_exp, delta, gradient, out, vectors, stream)
                             : backward_bf16<128>(s, scale, in, log_sum_exp, delta, gradient, out, vectors, stream);
    }
  });
}

int thinwire_cuda_attention_slice_forward(std::int64_t batch, std::int64_t tokens, std::int64_t first, std::int64_t length, std::int64_t heads,
                                          std::int64_t head_size, const float* qkv, float* cache, float* context, float* log_sum_exp, int ordinal,
                                          void* stream) {
  if (head_size < 1 || first < 0 || first + tokens > length) return cudaErrorInvalidValue;
  return on_device(ordinal, [&] {
    const KeepKeysAndValues keep{tokens, first, length, heads, head_size, qkv, cache};
    if (const auto e = map(keep, batch * tokens * heads * 2 * head_size, packs_rows<float>(head_size, {qkv, cache}), stream); e != cudaSuccess) return e;
    return forward_f32(slice_tokens({batch, tokens, first, length, heads, head_size}), qkv, cache, cache + head_size, context, log_sum_exp, stream);
  });
}

int thinwire_cuda_attention_slice_backward(std::int64_t batch, std::int64_t tokens, std::int64_t first, std::int64_t length, std::int64_t heads,
                                           std::int64_t head_size, const float* qkv, const float* cache, const float* context, const float* log_sum_exp,
                                           const float* dcontext, float* dcache, float* dqkv, void* workspace, int ordinal, void* stream) {
  if (head_size < 1 || first < 0 || first + tokens > length) return cudaErrorInvalidValue;
  auto* delta = static_cast<float*>(workspace);
  return on_device(ordinal, [&] {
    if (const auto e = row_dots<float>({batch, tokens, heads, head_size}, context, dcontext, delta, stream); e != cudaSuccess) return e;
    const AttentionGradients g{qkv, cache, cache + head_size, log_sum_exp, delta, dcontext, dqkv, dcache, dcache + head_size, dqkv + head_size,
                               first + tokens != length};
    return backward_f32(slice_tokens({batch, tokens, first, length, heads, head_size}), g, stream);
  });
}
