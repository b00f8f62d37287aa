// Checks of a codec against references in float64 (CodecInfo::check). They look at the input and the decoded tensor alone and share no code with
// the codecs.
#pragma once

#include <span>
#include <vector>

#include "kernels/codec/registry.h"

namespace thinwire {

/// WrongResult unless the relative L2 difference over the elements that the reference has (not NaN) is at most `tolerance`.
void require_near_reference(std::span<const float> decoded, const std::vector<double>& reference, double tolerance);

/// For formulas that round to the nearest: WrongResult unless every decoded value is as near to its original as the reference's is, up to the rounding of a few f32
/// operations. Where two values are equally near (captured tensors hold bf16 numbers, of which many lie on ties), f32 products may choose the other one.
/// `offsets`: what a formula takes from an element and adds again (empty: nothing). A value near zero then comes back with the rounding of its offset, not with its own.
void require_as_near(std::span<const float> x, std::span<const float> decoded, const std::vector<double>& reference, const std::vector<double>& offsets = {});

/// Kept elements carry their own value times `factor`, up to f16; with `largest`, no other choice of as many elements loses less.
void require_kept_values(std::span<const float> x, std::span<const float> decoded, bool largest, double factor = 1);

/// ||M||^2 = ||out||^2 + ||M - out||^2 for any result P P^T M (docs/papers/optimus_cc.md, "Worked examples" 2).
void require_projection(std::span<const float> x, std::span<const float> decoded);

}  // namespace thinwire
