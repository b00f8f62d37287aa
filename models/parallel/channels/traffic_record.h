// What a traffic class cost.
#pragma once

#include <string>

#include "collectives/channel/channel.h"
#include "models/parallel/channels/channel_level.h"

namespace thinwire {

/// What one traffic class cost this rank in one step: sums over its operations.
struct TrafficRecord {
  TrafficClass traffic = TrafficClass::control;
  std::string codec;  ///< "none" for the dense share of a class
  std::int64_t operations = 0;
  OperationReport total;
  double error_squared = 0, reference_squared = 0;  ///< over the messages compared in this step; relative error = sqrt of the ratio
  ChannelLevel level = ChannelLevel::whole;
};

}  // namespace thinwire
