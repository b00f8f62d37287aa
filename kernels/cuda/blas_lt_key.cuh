// What cuBLASLt's choice of an algorithm depends on: products that agree in all of it may share one. No CUDA in here, so that it is tested everywhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/blas_lt.cuh"

namespace thinwire::cuda {

/// Largest power of two, up to 256, that divides the addresses of all products of a batch. The bias's counts as well: cuBLASLt sees its
/// address when it chooses, so what it chose for an aligned one may not take another.
struct BlasAlignments {
  std::uint32_t a = 0, b = 0, c = 0, bias = 0;  ///< 0: there is no bias
};
inline BlasAlignments blas_alignments(const BlasProblem& p) {
  const auto of = [&](const void* address, std::int64_t stride, DType t) {
    const auto apart = p.batch == 1 ? 0 : static_cast<std::uintptr_t>(stride) * (t == DType::bf16 ? 2 : 4);
    const auto bits = reinterpret_cast<std::uintptr_t>(address) | apart | 256;
    return static_cast<std::uint32_t>(bits & (~bits + 1));
  };
  return {of(p.a, p.stride_a, p.type_ab), of(p.b, p.stride_b, p.type_ab), of(p.c, p.stride_c, p.type_c), p.bias == nullptr ? 0 : of(p.bias, 0, p.type_c)};
}

using BlasKey = std::array<std::int64_t, 21>;
inline BlasKey blas_key(const BlasProblem& p, std::size_t workspace_bytes, int ordinal) {
  const BlasAlignments aligned = blas_alignments(p);
  return {ordinal, p.type_ab == DType::bf16, p.type_c == DType::bf16, p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.lda, p.ldb, p.ldc, aligned.a, aligned.b,
          aligned.c, aligned.bias, p.batch, p.stride_a, p.stride_b, p.stride_c, static_cast<std::int64_t>(workspace_bytes), p.beta != 0};
}

}  // namespace thinwire::cuda
