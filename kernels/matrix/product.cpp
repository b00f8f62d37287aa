#include "kernels/matrix/product.h"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace thinwire {

void matrix_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                    float* c, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) std::fill(c, c + m * n, 0.0f);
    return;
  }
  TW_ASSERT(std::max({m, n, k}) <= std::numeric_limits<blasint>::max());
  const auto extent = [](std::int64_t e) { return static_cast<blasint>(e); };
  cblas_sgemm(CblasRowMajor, op_a == Op::plain ? CblasNoTrans : CblasTrans,
              op_b == Op::plain ? CblasNoTrans : CblasTrans, extent(m), extent(n), extent(k), 1.0f, a,
              extent(op_a == Op::plain ? k : m), b, extent(op_b == Op::plain ? n : k), accumulate ? 1.0f : 0.0f, c,
              extent(n));
}

}  // namespace thinwire
