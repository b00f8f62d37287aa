// Of an exchange in two steps, inside nodes and between them: which of them a channel carries.
#pragma once

#include <string>

#include "collectives/channel/traffic.h"

namespace thinwire {

enum class ChannelLevel { whole, inside, across };

/// As results name it: a class, or "grad_reduce_scatter.inside".
inline std::string name_of(TrafficClass traffic, ChannelLevel level) {
  return name_of(traffic) + (level == ChannelLevel::inside ? ".inside" : level == ChannelLevel::across ? ".across" : "");
}

}  // namespace thinwire
