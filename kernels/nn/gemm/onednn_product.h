// Products through oneDNN, whose headers stay behind this one. Creating one of its primitives costs up to 3 ms, so they are kept: by shape, type,
// strides and number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kernels/nn/gemm/bf16_product.h"
#include "kernels/nn/gemm/gemm.h"
#include "kernels/nn/gemm/packed_weight.h"

namespace thinwire::nn::detail {

/// False where a stand-in took the library's place (packaging/stand_in.sh).
bool onednn_is_here();
std::string onednn_version();

/// C = op(A) op(B) + beta C in f32, all with leading dimensions as gemm<float> takes them; beta is 0 or 1, no extent is 0. The same call gives the
/// same bits as long as the number of threads is the same.
void gemm_f32_onednn(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
                     const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);

/// op(A) op(B) on any processor that oneDNN supports bf16 on (AVX-512 and up), fast or not: what the tests check on machines without either. Operands are
/// dense row-major bf16 as stored.
void gemm_bf16(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k, const BFloat16* a, const BFloat16* b,
               const Bf16Result& c);

/// C [m, n] = A op(W); A [m, k] dense. `round_weight` makes W in dense bf16 as stored; it is called only where `weights` keeps none of this
/// scope, made of the weight at `w` for a product like this.
void gemm_bf16_packed(Transpose trans_w, std::int64_t m, std::int64_t n, std::int64_t k, const BFloat16* a,
                      const std::function<const BFloat16*()>& round_weight, const float* w, PackedWeights& weights, const Bf16Result& c);

}  // namespace thinwire::nn::detail
