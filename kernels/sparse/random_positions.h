// k of n positions drawn without replacement, equal on every rank that asks with the same stream.
// Distribution: stratified by blocks of 65536 positions. A block gets its share of k, rounded so that every
// position of the tensor is kept with probability exactly k / n (systematic rounding with one random phase;
// Madow 1949); inside a block all subsets of that size are equally likely. Up to 65536 elements this is the
// uniform k-subset. O(k) random numbers, no table of n, blocks are independent of each other: threads and
// ranks need only their own.
#pragma once

#include "core/random.h"
#include "kernels/sparse/positions.h"

namespace thinwire {

class RandomPositions final : public SparsePositions {
 public:
  /// Draws min(k, elements) positions.
  RandomPositions(std::uint64_t seed, std::uint64_t stream, std::int64_t elements, std::int64_t k);
  std::int64_t elements() const override { return elements_; }
  std::int64_t start(std::int64_t block) const override;
  std::span<const std::uint16_t> offsets(std::int64_t block, std::uint16_t* scratch) const override;

 private:
  std::uint64_t seed_, stream_;
  std::int64_t elements_, k_;
  std::int64_t phase_;  // in [0, elements)
};

}  // namespace thinwire
