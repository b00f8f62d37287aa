// Products on the host whose operands are bf16 and whose sums are f32, for who stores operands and results in bf16 (models/layers/block.h). From f32 to
// f32, the door is gemm(ComputeType::bf16, ...).
#pragma once

#include <cstdint>

#include "kernels/nn/gemm/gemm.h"

namespace thinwire::nn {

/// A row-major matrix: in f32, which the product rounds (nearest even), or rounded before and dense.
struct Bf16Operand {
  const float* values = nullptr;
  std::int64_t stride = 0;  ///< of rows of `values`, as stored
  const BFloat16* rounded = nullptr;
};

/// C [m, n], contiguous: in f32, plus beta (0 or 1) times what was there; or, with `narrow`, rounded once `bias` [n] was added to every row (null: none).
struct Bf16Result {
  float* wide = nullptr;
  float beta = 0;
  BFloat16* narrow = nullptr;
  const float* bias = nullptr;
};

/// C = op(A) op(B); no extent is 0. UsageError as gemm.
void gemm_bf16(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k, const Bf16Operand& a, const Bf16Operand& b,
               const Bf16Result& c);

}  // namespace thinwire::nn
