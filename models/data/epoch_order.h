// The order of a fixed number of samples, epoch after epoch: in each every sample comes once, in an order of its own that seed and stream decide. A batch
// that reaches beyond the end of an epoch goes on with the next one, so none is left out and none comes twice.
// Where the global batch divides the samples, a sample keeps its place in the batch, and so its replica and tensor rank: what these remember of samples stays
// theirs.
#pragma once

#include <cstdint>
#include <vector>

namespace thinwire {

class EpochOrder {
 public:
  /// No samples: at() is not to be called.
  EpochOrder(std::int64_t samples, std::int64_t global_batch, std::uint64_t seed, std::uint64_t stream)
      : samples_(samples), global_batch_(global_batch), seed_(seed), stream_(stream) {}
  /// Number of the sample that stands at this place of the step's global batch.
  std::int64_t at(std::uint64_t step, std::int64_t place) const;

 private:
  std::int64_t samples_, global_batch_;
  std::uint64_t seed_, stream_;
  mutable std::int64_t shuffled_ = -1;            ///< the epoch whose order is kept
  mutable std::vector<std::int32_t> order_ = {};
};

}  // namespace thinwire
