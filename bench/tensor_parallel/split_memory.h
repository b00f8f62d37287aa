// How much memory a split unit needs, and the batch that a limit leaves it.
#pragma once

#include "bench/tensor_parallel/sharded_module.h"

namespace thinwire::bench {

/// The most bytes that a rank's buffers hold over two passes forward and backward. Collective.
std::int64_t peak_bytes(Communicator& world, const GridShape& shape, const SplitSizes& sizes);

/// The largest batch that fits `limit` bytes on every rank; 0 where the smallest that the grid divides, `smallest`, does not. Memory grows
/// with the batch in a straight line, but for buffers that serve several sizes, hence the steps at the end. Collective.
std::int64_t largest_batch(Communicator& world, const GridShape& shape, SplitSizes sizes, std::int64_t limit, std::int64_t& smallest);

}  // namespace thinwire::bench
