// Dense products of the learned and low-rank codecs: f32, row-major, through BLAS, on all threads.
#pragma once

#include <cstdint>

namespace thinwire {

enum class Op { plain, transposed };

/// C [m, n] = op(A) [m, k] * op(B) [k, n], or C += ... with `accumulate`. Row-major and contiguous: a
/// transposed A is stored [k, m], a transposed B [n, k]. Empty extents are allowed (k = 0 gives zeros).
void matrix_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                    float* c, bool accumulate = false);

}  // namespace thinwire
