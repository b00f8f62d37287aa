#include "models/cost_model/stored_bytes.h"

#include "models/store/parameter_store.h"
#include "models/update/update_policy.h"

namespace thinwire {

StoredBytes stored_bytes(const TrainConfig& config, std::int64_t split, std::int64_t in_layers, std::int64_t whole, std::int64_t size) {
  const int ranks = config.mesh.data().within_replica();
  // With nobody to share with every store holds the whole.
  const StoreFootprint f = store_info(ranks > 1 ? config.zero_stage : 0).footprint(split, whole, ranks);
  const UpdateExpression update = parse_update(config.optimizer);
  const double of_layers = split > 0 ? static_cast<double>(f.owned - whole) * static_cast<double>(in_layers) / static_cast<double>(split) : 0;
  const auto state = static_cast<std::int64_t>(update.state_per_element() * (static_cast<double>(f.owned) - of_layers) + update.state_per_layer_element() * of_layers);
  const std::int64_t rounded = config.rounds_parameters() ? f.in_place : 0;
  return {f.weights * size, f.gradients * size, (state + f.kept + rounded) * size};
}

}  // namespace thinwire
