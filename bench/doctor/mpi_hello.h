// The small MPI program inside `doctor`.
#pragma once

#include "collectives/communicator/communicator.h"

namespace thinwire::bench {

/// Every pair of ranks exchanges a message whose content tells sender and receiver; throws WrongResult naming the
/// pair whose message came damaged. Collective.
void exchange_pairwise(Communicator& world);

}  // namespace thinwire::bench
