// What matrices are multiplied in; apart from gemm.h, which attention.h need not bring along.
#pragma once

namespace thinwire::nn {

/// Type in which f32 matrices are multiplied. Sums are f32 in both.
enum class ComputeType { f32, bf16 };

}  // namespace thinwire::nn
