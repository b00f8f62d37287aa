// A matrix product of a layer in the type it computes in. f64 has one compute type; f32 has two.
#pragma once

#include "kernels/nn/gemm/gemm.h"

namespace thinwire {

/// C [m, n] = op(A) op(B) + beta C; C is contiguous.
inline void local_product(nn::ComputeType compute, nn::Transpose ta, nn::Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
                          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c) {
  nn::gemm(compute, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, beta, c, n);
}
inline void local_product(nn::ComputeType, nn::Transpose ta, nn::Transpose tb, std::int64_t m, std::int64_t n, std::int64_t k,
                          const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c) {
  nn::gemm<double>(ta, tb, m, n, k, 1.0, a, lda, b, ldb, beta, c, n);
}

}  // namespace thinwire
