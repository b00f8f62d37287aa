// Which elements of a tensor a sketch holds: the largest, about 1 - target of them.
//   quantile  just round((1 - target) n), at least one: exact, and among equal magnitudes the lower position is kept
//   ladder    TAGC's: of 25 thresholds the one before the first that leaves out at least the target (docs/papers/gradient_compression.md, "Sketches")
// Zeros are never kept.
#pragma once

#include <cstdint>
#include <span>

#include "core/device/tensor.h"
#include "kernels/sparse/top_magnitudes.h"

namespace thinwire {

enum class ThresholdRule { quantile, ladder };

/// What TAGC's rule takes for `x`: elements below it are left out; 0 leaves out none.
float ladder_threshold(std::span<const float> x, double target);

class KeptElements {
 public:
  /// Bit i % 64 of words[i / 64] = element i is kept; `words` is at least as long as x and zero behind it. RuntimeFailure naming the position of a NaN or infinity.
  void select(ConstTensorView x, ThresholdRule rule, double target, const MessageKey& key, std::span<std::uint64_t> words);
  /// What was kept last, at its place; 0 elsewhere.
  void expand(std::span<float> out) const;

 private:
  TopMagnitudes selection_;
};

}  // namespace thinwire
