#include "models/training/replica_batches.h"

#include "core/error.h"

namespace thinwire {

std::vector<Batch> replica_batches(const TrainConfig& config, const MeshCoordinates& at, const Dataset& data, std::uint64_t step) {
  std::vector<Batch> list;
  const std::int64_t count = config.micro_batches();
  const double global_weight = data.weight(step, config.global_batch, config.seq);
  if (!(global_weight > 0)) throw RuntimeFailure("The global batch of step " + std::to_string(step) + " has no labels; there is nothing to learn from it.");
  for (std::int64_t m = 0; m < count; ++m) {
    list.push_back(data.batch(step, (at.dp * count + m) * config.micro_batch, config.micro_batch, config.seq));
    list.back().global_weight = global_weight;
    list.back().global_samples = config.global_batch;
  }
  return list;
}

}  // namespace thinwire
