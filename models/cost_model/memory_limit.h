// A run that would not fit a stated limit of memory per rank is refused before it starts, with what it needs and
// what would fit.
#pragma once

#include <cstdint>

#include "models/training/config/train_config.h"

namespace thinwire {

/// UsageError where a rank needs more than `limit` bytes in closed form (estimate_memory), with the numbers and what would mend it: the first higher zero stage that fits; where none does
/// because a unit, whole while it computes, is larger than the limit by itself, that unit; else what takes most. Also where there is no closed form.
void check_memory_limit(const TrainConfig& config, std::int64_t limit);

}  // namespace thinwire
