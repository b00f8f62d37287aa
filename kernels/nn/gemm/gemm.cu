// CUDA implementation of kernels/nn/gemm/gemm.cpp: row-major products by cuBLASLt, f32 or bf16 with f32 sums.
#include "kernels/cuda/kernel_abi.h"
#include "kernels/cuda/product.cuh"
#include "kernels/nn/device/device_nn.h"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_gemm, thinwire_cuda_gemm_fn);

int thinwire_cuda_gemm(int type_ab, int type_c, int transpose_a, int transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                       const void* a, std::int64_t lda, const void* b, std::int64_t ldb, float beta, void* c, std::int64_t ldc, const void* bias,
                       void* workspace, int ordinal, void* stream) {
  const auto known = [](int type) { return type == device_f32 || type == device_bf16; };
  if (!known(type_ab) || !known(type_c) || m < 0 || n < 0 || k < 1) return cudaErrorInvalidValue;
  if (m == 0 || n == 0) return cudaSuccess;
  BlasProblem p;
  p.type_ab = type_ab == device_bf16 ? DType::bf16 : DType::f32;
  p.type_c = type_c == device_bf16 ? DType::bf16 : DType::f32;
  p.transpose_a = transpose_b != 0, p.transpose_b = transpose_a != 0;
  p.m = n, p.n = m, p.k = k;
  p.a = b, p.lda = ldb, p.b = a, p.ldb = lda, p.c = c, p.ldc = ldc;
  p.bias = bias;
  p.alpha = alpha, p.beta = beta;
  return on_device(ordinal, [&] { return blas_product(p, workspace, product_workspace_bytes, ordinal, stream); });
}
