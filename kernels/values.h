// Arithmetic on whole tensors, where the thread computes (core/device/placement.h): the host's loops, or the device module's kernels on the
// placement's stream. Results have the same bits on both. Tensors must lie where the thread computes.
#pragma once

#include "core/device/tensor.h"

namespace thinwire {

/// to[i] = from[i] in another type: f32 to f16 or bf16 (nearest even; NaN stays NaN) or back, or of one type (a copy; `to` may be `from`). On the host
/// also f64 to any of them, through f32, or back.
void convert_values(const void* from, DType from_type, void* to, DType to_type, std::int64_t count);
/// to = factor * x, f32; `to` may be `x`.
void scale_values(TensorView to, ConstTensorView x, float factor);
/// to += factor * x, f32, rounded after the product and after the sum.
void add_values(TensorView to, ConstTensorView x, float factor = 1.0f);
/// to = a - b, f32; `to` may be either.
void subtract_values(TensorView to, ConstTensorView a, ConstTensorView b);
/// to = x of equal size and type; nothing where they are the same memory.
void copy_values(TensorView to, ConstTensorView x);

/// A copy on the host of what lies there or where the thread computes, waited for: for checkpoints and tests.
Tensor on_host(ConstTensorView x);

}  // namespace thinwire
