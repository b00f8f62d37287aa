#include "kernels/matrix/product.h"

#include <algorithm>

#include "kernels/nn/gemm/gemm.h"

namespace thinwire {

void matrix_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                    float* c, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) std::fill(c, c + m * n, 0.0f);
    return;
  }
  const auto transpose = [](Op op) { return op == Op::plain ? nn::Transpose::no : nn::Transpose::yes; };
  nn::gemm<float>(transpose(op_a), transpose(op_b), m, n, k, 1.0f, a, op_a == Op::plain ? k : m, b, op_b == Op::plain ? n : k,
                  accumulate ? 1.0f : 0.0f, c, n);
}

}  // namespace thinwire
