// Counts what is really handed over: the measurement that closed forms of traffic are held against.
#pragma once

#include <memory>

#include "collectives/communicator/communicator.h"
#include "collectives/communicator/cost_terms.h"

namespace thinwire {

/// `inner`, and an account of its point-to-point messages and of those of every communicator split off or duplicated from it, on this
/// rank. Collectives of `inner` pass uncounted: put an emulated communicator over it, whose collectives are made of messages (rings,
/// chains, direct exchanges), and `count` sees every byte of them, the network's time stamps left out.
std::unique_ptr<Communicator> make_counting_communicator(std::unique_ptr<Communicator> inner, std::shared_ptr<LinkBytes> count);

}  // namespace thinwire
