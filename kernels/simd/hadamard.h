// The Walsh-Hadamard transform of blocks of neighbours, orthonormal and its own inverse: y = H x / sqrt(size), H in natural (Sylvester) order, H[i][j] = (-1)^bits(i & j).
#pragma once

#include <cstddef>

namespace thinwire::simd {

inline constexpr std::size_t largest_hadamard = 1024;

/// Of n neighbours: blocks of `block` elements (a power of two from 2 to largest_hadamard), then the rest, which is cut into the powers of two that sum to it,
/// largest first (13 = 8 + 4 + 1; of a block of 1, y = x). `signs` (+-1 of every element, or null) multiply x before, and y behind with `signs_behind`.
/// `to` may be `x`. The order of operations is fixed, so results have equal bits on every target: for stride 1, 2, 4, ..., size / 2 the pair (a, b) at that
/// distance becomes (a + b, a - b), then all are multiplied by 1 / sqrt(size), rounded to f32.
void hadamard(const float* x, std::size_t n, std::size_t block, const float* signs, bool signs_behind, float* to);

}  // namespace thinwire::simd
