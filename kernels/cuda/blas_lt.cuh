// One product by cuBLASLt, in its own (column-major) terms. On emulated devices tests/emulated_device/blas.cpp stands in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/device_abi.h"
#include "core/dtype.h"

namespace thinwire::cuda {

/// C [m, n] = alpha op(A) [m, k] op(B) [k, n] + beta C + bias [m] (where not null, of C's type), column-major; sums in f32.
struct BlasProblem {
  DType type_ab = DType::f32, type_c = DType::f32;  ///< f32 or bf16
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  std::int64_t lda = 0;
  const void* b = nullptr;
  std::int64_t ldb = 0;
  void* c = nullptr;
  std::int64_t ldc = 0;
  const void* bias = nullptr;
  float alpha = 1, beta = 0;
  /// So many products of this kind, whose operands lie so many elements apart.
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

/// Queues the product on device `ordinal`, which is current. The workspace serves one product at a time: one per stream.
int blas_product(const BlasProblem& problem, void* workspace, std::size_t workspace_bytes, int ordinal, void* stream);

}  // namespace thinwire::cuda
