// What a reduction does with two operands on one rank: the table that our own ring and the user-defined MPI
// operators share, so that both give the same sums.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "kernels/codec/codec.h"

namespace thinwire {

/// Whether reduce_into knows this pair: sum for every type, max for all but f16 and bf16, or for integers.
bool can_reduce(DType dtype, ReduceOp op);

/// accumulator[i] = accumulator[i] op x[i]; f16 and bf16 add in f32 and round once (nearest even), integers
/// wrap. Throws UsageError for a pair that can_reduce refuses.
void reduce_into(void* accumulator, const void* x, std::int64_t elements, DType dtype, ReduceOp op);

}  // namespace thinwire
