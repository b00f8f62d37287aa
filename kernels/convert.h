// Bulk conversion between f32 and the 16-bit types, and in-place reductions in them. SIMD with run-time
// dispatch and OpenMP threads; results equal the scalar functions of core/half.h bit for bit on every target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace thinwire {

/// Element-wise conversion; `from` and `to` have equal length and do not overlap. Rounds to nearest even;
/// overflow gives infinity, NaN stays NaN (quiet), subnormals are kept.
void convert(std::span<const float> from, std::span<Half> to);
void convert(std::span<const Half> from, std::span<float> to);
void convert(std::span<const float> from, std::span<BFloat16> to);
void convert(std::span<const BFloat16> from, std::span<float> to);

/// accumulator[i] = accumulator[i] + x[i], added in f32 and rounded once. The 16-bit ones are what
/// user-defined MPI reductions do. Equal lengths; the spans are equal or disjoint.
void accumulate(std::span<Half> accumulator, std::span<const Half> x);
void accumulate(std::span<BFloat16> accumulator, std::span<const BFloat16> x);
void accumulate(std::span<float> accumulator, std::span<const float> x);

/// accumulator[i] = max(accumulator[i], x[i]) on unsigned bytes.
void maximum_into(std::span<std::uint8_t> accumulator, std::span<const std::uint8_t> x);
/// accumulator[i] |= x[i].
void bit_or_into(std::span<std::uint8_t> accumulator, std::span<const std::uint8_t> x);

/// to[i] = factor * x[i]; `to` may be `x`.
void scale(std::span<float> to, std::span<const float> x, float factor);

/// Name of the SIMD target that the dispatcher chose on this processor, e.g. "AVX3" (for provenance).
const char* simd_target();

}  // namespace thinwire
