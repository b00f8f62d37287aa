// Device twin of kernels/nn/attention.cpp: fused, causal; f32 on the ordinary units, bf16 on the matrix units.
#include "kernels/nn/attention_bf16_kernels.cuh"
#include "kernels/nn/types.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY thinwire_cuda_attention_forward_fn thinwire_cuda_attention_forward;
THINWIRE_CUDA_ENTRY thinwire_cuda_attention_backward_fn thinwire_cuda_attention_backward;

namespace {

float scale_of(std::int64_t head_size) { return 1.0f / std::sqrt(static_cast<float>(head_size)); }

template <int kSize>
cudaError_t backward_f32(const nn::AttentionShape& s, float scale, const float* qkv, const float* lse, const float* delta, const float* dcontext, float* dqkv,
                         void* stream) {
  const std::int64_t blocks = s.batch * s.heads * ceil_divide(s.seq, exact_rows);
  if (const auto e = launch(attention_backward_f32<kSize, true>, blocks, exact_threads, stream, s, scale, qkv, lse, delta, dcontext, dqkv); e != cudaSuccess)
    return e;
  return launch(attention_backward_f32<kSize, false>, blocks, exact_threads, stream, s, scale, qkv, lse, delta, dcontext, dqkv);
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
  if (head_size > 128) return cudaErrorNotSupported;
  if (head_size < 1) return cudaErrorInvalidValue;
  const float scale = scale_of(head_size);
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    const auto *in = static_cast<const T*>(qkv);
    auto* out = static_cast<T*>(context);
    if constexpr (sizeof(T) == 4) {
      const auto kernel = head_size <= 64 ? attention_forward_f32<64> : attention_forward_f32<128>;
      return launch(kernel, batch * heads * ceil_divide(seq, exact_rows), exact_threads, stream, s, scale, in, out, log_sum_exp);
    } else {
      const auto kernel = head_size <= 64 ? attention_forward_bf16<64> : attention_forward_bf16<128>;
      return launch(kernel, batch * heads * ceil_divide(seq, fused_rows), fused_threads, stream, s, scale, in, out, log_sum_exp,
                    packs_rows<T>(head_size, {qkv, context}));
    }
  });
}

int thinwire_cuda_attention_backward(int type, std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t head_size, const void* qkv,
                                     const void* context, const float* log_sum_exp, const void* dcontext, void* dqkv, void* workspace, int ordinal,
                                     void* stream) {
  const nn::AttentionShape s{batch, seq, heads, head_size};
  if (head_size > 128) return cudaErrorNotSupported;
  if (head_size < 1) return cudaErrorInvalidValue;
  const float scale = scale_of(head_size);
  auto* delta = static_cast<float*>(workspace);
  return for_type(type, ordinal, [&](auto t) {
    using T = decltype(t);
    if (const auto e = row_dots<T>(s, context, dcontext, delta, stream); e != cudaSuccess) return e;
    const auto *in = static_cast<const T*>(qkv), *gradient = static_cast<const T*>(dcontext);
    auto* out = static_cast<T*>(dqkv);
    if constexpr (sizeof(T) == 4) {
      return head_size <= 64 ? backward_f32<64>(s, scale, in, log_sum_exp, delta, gradient, out, stream)
                             : backward_f32<128>(s, scale, in, log_sum_exp, delta, gradient, out, stream);
    } else {
      const bool vectors = packs_rows<T>(head_size, {qkv, dcontext, dqkv});
      return head_size <= 64 ? backward_bf16<64>(s, scale, in, log_sum_exp, delta, gradient, out, vectors, stream)
                             : backward_bf16<128>(s, scale, in, log_sum_exp, delta, gradient, out, vectors, stream);
    }
  });
}
