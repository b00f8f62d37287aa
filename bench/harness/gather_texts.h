// What all ranks have to say, on rank 0.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"

namespace thinwire::bench {

/// Collective. Rank 0 gets the texts of all ranks in rank order; the others get nothing.
std::vector<std::string> gather_texts(Communicator& world, const std::string& text);

}  // namespace thinwire::bench
