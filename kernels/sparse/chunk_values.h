// The kept values of all chunks on the wire.
//   f32, f16, bf16  each as it is, rounded to the nearest
//   codebook2       2 bits each and one book of four for the message (kernels/codec/payload/code_book.h), as SparseLoCo
//   sign            scales of all chunks, bf16, the mean magnitude of what a chunk keeps; then a bit for each value, 1 = negative, lowest first, whole bytes per chunk
#pragma once

#include <cstddef>
#include <span>

#include "kernels/codec/payload/code_book.h"
#include "kernels/sparse/chunk_grid.h"

namespace thinwire {

enum class ChunkValueForm { f32, f16, bf16, codebook2, sign };

class ChunkValues {
 public:
  /// `half_shift` of the code book's rule.
  ChunkValues(ChunkValueForm form, bool half_shift) : form_(form), rule_{.bits = 2, .width = 6, .centred = true, .half_shift = half_shift} {}

  std::size_t bytes(const ChunkGrid& grid) const;
  /// `values` of all chunks, finite. False where one is beyond what travels (f16, bf16).
  bool write(const ChunkGrid& grid, std::span<const float> values, std::byte* out);
  /// False for NaN, infinity, or a scale that is never written.
  bool read(const ChunkGrid& grid, const std::byte* in, std::span<float> values);

 private:
  ChunkValueForm form_;
  CodeBookRule rule_;
  CodeBookWriter writer_;
  Buffer aligned_;
};

}  // namespace thinwire
