// Sizes that every Transformer of this house has; what a model needs beyond them is in its options (`--model NAME:key=value,...`).
#pragma once

#include <cstdint>

#include "kernels/nn/gemm/compute_type.h"

namespace thinwire {

struct ModelConfig {
  std::int64_t vocab = 256, hidden = 512, layers = 4, heads = 8, max_seq = 512;
  double dropout = 0;
  std::uint64_t seed = 1;
  nn::ComputeType compute = nn::ComputeType::f32;
  /// UsageError naming both numbers when heads do not divide hidden, or an extent is not positive.
  void check() const;
};

}  // namespace thinwire
