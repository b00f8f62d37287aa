#include "models/cost_model/stored_bytes.h"

#include "models/store/parameter_store.h"
#include "models/update/update_policy.h"

namespace thinwire {

StoredBytes stored_bytes(const TrainConfig& config, std::int64_t split, std::int64_t whole, std::int64_t size) {
  const int ranks = config.mesh.data().within_replica();
  // With nobody to share with every store holds the whole.
  const StoreFootprint f = store_info(ranks > 1 ? config.zero_stage : 0).footprint(split, whole, ranks);
  const std::int64_t state = parse_update(config.optimizer).info->state_per_element * f.owned;
  return {f.weights * size, f.gradients * size, (state + f.kept) * size};
}

}  // namespace thinwire
