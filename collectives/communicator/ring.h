// Our own ring collectives over non-blocking send and receive: the honest baseline of the library's collectives,
// and the one whose link bytes are counted rather than assumed. Algorithm: Patarasuk and Yuan, JPDC 2009.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "collectives/communicator/cost_terms.h"

namespace thinwire {

/// Ring collectives on a communicator of any size, with blocks of any sizes. One operation at a time: the
/// scratch memory (twice the largest block in a reduction) is kept, so that a steady state allocates next to
/// nothing. Large blocks travel as up to four independent lanes, so that sums overlap with transfers.
class Ring {
 public:
  explicit Ring(Communicator& communicator);
  ~Ring();
  /// receive[i] = reduction over ranks of send[i]; `send` may equal `receive`. Equal bits on all ranks.
  RequestPtr all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op);
  /// `counts[r]` elements go to rank r, in rank order; receive holds my block. No aliasing.
  RequestPtr reduce_scatter(const void* send, void* receive, std::span<const std::int64_t> counts,
                            DType dtype, ReduceOp op);
  /// receive = all ranks' blocks of counts[r] bytes in rank order; `send` is my block, and may lie in its
  /// place there.
  RequestPtr all_gather(const void* send, void* receive, std::span<const std::int64_t> counts);
  /// What the latest operation has handed to send() and receive() so far.
  LinkBytes counted() const;

  struct Progress;

 private:
  Communicator& communicator_;
  std::shared_ptr<Progress> progress_;
};

}  // namespace thinwire
