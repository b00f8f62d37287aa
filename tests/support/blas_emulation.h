// cuBLASLt's product for emulated devices: column-major, as its documentation defines it, by three loops. One per test program.
#pragma once

#include "core/half.h"
#include "kernels/cuda/blas_lt.cuh"

namespace thinwire::cuda {

int blas_product(const BlasProblem& p, void* workspace, std::size_t workspace_bytes, int, void*) {
  if (workspace != nullptr) std::memset(workspace, 0xcd, std::min<std::size_t>(workspace_bytes, 4096));  // it may write there
  const auto load = [](DType type, const void* matrix, std::int64_t at) {
    return type == DType::bf16 ? to_float(static_cast<const BFloat16*>(matrix)[at]) : static_cast<const float*>(matrix)[at];
  };
  for (std::int64_t column = 0; column < p.batch * p.n; ++column)
    for (std::int64_t i = 0; i < p.m; ++i) {
      const std::int64_t item = column / p.n, j = column % p.n, a = item * p.stride_a, b = item * p.stride_b;
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l)
        sum += static_cast<double>(load(p.type_ab, p.a, a + (p.transpose_a ? l + i * p.lda : i + l * p.lda))) *
               load(p.type_ab, p.b, b + (p.transpose_b ? j + l * p.ldb : l + j * p.ldb));
      const std::int64_t at = item * p.stride_c + i + j * p.ldc;
      double value = p.alpha * sum;
      if (p.beta != 0) value += static_cast<double>(p.beta) * load(p.type_c, p.c, at);
      if (p.bias != nullptr) value += load(p.type_c, p.bias, i);
      if (p.type_c == DType::bf16) static_cast<BFloat16*>(p.c)[at] = to_bfloat16(static_cast<float>(value));
      else static_cast<float*>(p.c)[at] = static_cast<float>(value);
    }
  return 0;
}

}  // namespace thinwire::cuda
