// Products of row-major matrices for `.cu` files. Row-major C = op(A) op(B) is column-major C^T = op(B)^T op(A)^T.
#pragma once

#include "kernels/cuda/blas_lt.cuh"
#include "kernels/cuda/launch.cuh"

namespace thinwire::cuda {

/// What a product may use beside its operands: one per stream, 16-byte aligned.
struct ProductWorkspace {
  void* memory;
  std::size_t bytes;
};

/// C [m, n] = op(A) [m, k] op(B) [k, n] (+ C with `accumulate`), f32, contiguous, row-major; as kernels/matrix/product.h. `batch`: so many
/// at once, the matrices of each operand under one another.
inline int product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* c,
                   bool accumulate, const ProductWorkspace& workspace, int ordinal, void* stream, std::int64_t batch = 1) {
  if (m == 0 || n == 0 || batch == 0) return cudaSuccess;
  if (k == 0)
    return accumulate ? cudaSuccess : static_cast<int>(cudaMemsetAsync(c, 0, static_cast<std::size_t>(batch * m * n) * sizeof(float), static_cast<cudaStream_t>(stream)));
  BlasProblem p;
  p.transpose_a = transpose_b, p.transpose_b = transpose_a;
  p.m = n, p.n = m, p.k = k;
  p.a = b, p.lda = transpose_b ? k : n;
  p.b = a, p.ldb = transpose_a ? m : k;
  p.c = c, p.ldc = n;
  p.beta = accumulate ? 1.0f : 0.0f;
  p.batch = batch, p.stride_a = k * n, p.stride_b = m * k, p.stride_c = m * n;
  return blas_product(p, workspace.memory, workspace.bytes, ordinal, stream);
}

}  // namespace thinwire::cuda
