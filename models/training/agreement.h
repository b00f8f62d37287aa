// One rank's failure becomes the same exception on all ranks, so that nobody waits for a rank that has given up.
#pragma once

#include <functional>

#include "collectives/communicator/communicator.h"

namespace thinwire {

/// Collective. Every rank runs `body`; when any of them throws, all throw the error of the lowest such rank, in its type. A body that
/// communicates must leave its partners satisfied before it throws.
void run_in_agreement(Communicator& world, const std::function<void()>& body);

/// Runs `body`, which fails on all ranks alike or on none: rank 0 is heard, for the others give it time to end the job before they throw.
void complain_once(const Communicator& world, const std::function<void()>& body);

/// Gives the rank that knows more the time to end the job: it does within milliseconds, or a second or two on a busy machine.
void leave_it_to_another();

}  // namespace thinwire
