// By which algorithm a trainer's dense sums travel.
#pragma once

#include "collectives/channel/channel.h"

namespace thinwire {

/// For a channel over `group` that is opened where the thread computes. Collective over `group`. On the host, and where a device's tensors are
/// staged through it, our own ring: on a slow link the library's all_reduce takes up to twice the ring's time (64 KiB, 2 ranks, 100 Mbit/s: 10.6 against
/// 5.6 ms), and a compressed run must not win over a dense one that is slower than it need be. NCCL, where ranks have devices of their own, brings its
/// own rings.
DenseAlgorithm dense_algorithm(Communicator& group);

}  // namespace thinwire
