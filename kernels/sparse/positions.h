// Which elements of a flattened tensor a sparse message keeps, and moving their values. A tensor is walked in
// blocks of 65536 elements: positions inside a block are 16-bit offsets, a block and what it keeps stay in
// the second-level cache, and threads own whole blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "core/dtype.h"

namespace thinwire {

inline constexpr std::int64_t sparse_block = 1 << 16;
constexpr std::int64_t sparse_blocks(std::int64_t elements) {
  return (elements + sparse_block - 1) / sparse_block;
}

class SparsePositions {
 public:
  virtual ~SparsePositions() = default;
  virtual std::int64_t elements() const = 0;
  /// Kept elements before block `block`; start(sparse_blocks(elements())) is how many there are in all.
  virtual std::int64_t start(std::int64_t block) const = 0;
  /// Offsets from block * 65536 of the kept elements of the block, strictly ascending, inside the tensor.
  /// `scratch` has room for 65536. Safe to call from several threads.
  virtual std::span<const std::uint16_t> offsets(std::int64_t block, std::uint16_t* scratch) const = 0;
  /// Their values where the selection has them at hand; null: they must be gathered.
  virtual const float* values(std::int64_t) const { return nullptr; }

  std::int64_t kept() const { return start(sparse_blocks(elements())); }
};

/// Moves values between a dense tensor and the dense list of kept elements, in order of position. Lists are
/// raw bytes of f32 or f16, of any alignment. Keeps scratch memory per thread.
class SparseMover {
 public:
  /// list[i] = factor * x[position i]. False when a listed value is NaN or infinite (an f16 one: overflowed),
  /// and, with `scan`, when any value of x is.
  bool gather(const SparsePositions& positions, std::span<const float> x, float factor, DType type,
              std::byte* list, bool scan = false);
  /// out = 0 but out[position i] = factor * list[i]; `add`: out[position i] += that, the rest stays. False
  /// when a listed value is NaN or infinite.
  bool scatter(const SparsePositions& positions, const std::byte* list, DType type, float factor,
               std::span<float> out, bool add);

 private:
  struct Scratch {
    Buffer offsets, values, halves, tile;
  };
  std::vector<Scratch>& scratch();
  std::vector<Scratch> scratch_;
};

}  // namespace thinwire
