// Rows of a tile from a dense buffer into a matrix. One thread each; callers split the work. Highway, with run-time dispatch.
#pragma once

#include <cstddef>

namespace thinwire::simd {

/// to[r, c] = from[r, c] of rows x columns, rows `from_stride` elements apart there and `to_stride` here. `add`: to += from. `stream`: stores that bypass the caches where
/// alignment allows (stream_fence() of codes/uniform_codes.h at the end).
void place_tile(const float* from, std::size_t from_stride, std::size_t rows, std::size_t columns, float* to, std::size_t to_stride, bool add, bool stream);

}  // namespace thinwire::simd
