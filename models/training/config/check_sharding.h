// What parameter stores that split matrices do not go with.
#pragma once

#include "models/training/config/train_config.h"
#include "models/update/update_policy.h"

namespace thinwire {

/// UsageError with the mend.
void check_sharding(const TrainConfig& config, const StoreInfo& store, const UpdateExpression& update);

}  // namespace thinwire
