// What a split unit must give: output, input gradient and weight gradients of one rank in float64, and how far the shards of all ranks are
// from them.
#pragma once

#include <vector>

#include "bench/harness/error_metrics.h"
#include "bench/tensor_parallel/sharded_module.h"

namespace thinwire::bench {

/// Of output, input gradient, and all parameters' gradients together.
struct SplitErrors {
  ErrorMetrics output, input_gradient, weight_gradient;
};

class SplitReference {
 public:
  /// Rank 0 computes it; the others hold nothing of it. Collective.
  SplitReference(Communicator& world, const SplitSizes& sizes);
  /// Runs the unit once, forward and backward, and compares what all ranks hold. y and dx are overwritten. Collective.
  SplitErrors errors_of(ShardedModule<float>& unit, const Tensor& x, Tensor& y, const Tensor& dy, Tensor& dx) const;

 private:
  struct Whole {
    std::string name;
    std::int64_t rows = 0, columns = 0;
    std::vector<double> values;  ///< on rank 0
  };
  std::vector<double> share(const Whole& whole, const AxisRange& rows, const AxisRange& columns) const;
  ErrorMetrics activation_error(const Whole& whole, const Tensor& mine, const Layout& layout) const;
  Communicator& world_;
  SplitSizes sizes_;
  Whole output_, input_gradient_;
  std::vector<Whole> gradients_;  ///< by parameter
};

}  // namespace thinwire::bench
