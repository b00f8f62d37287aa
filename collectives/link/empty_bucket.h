// Emptying a link's token bucket just before a timed transfer.
#pragma once

#include <array>

#include "collectives/communicator/communicator.h"
#include "core/clock.h"

namespace thinwire {

/// A token bucket that had time to fill lets its content through at memory speed (docs/measuring.md). So the
/// sender of a transfer of `bytes` first sends an untimed message of that size, one bucket at least and two at
/// most, and goes on when it has arrived. Header only what the partners need: when the message set out.
class EmptyBucket final : public Request {
 public:
  enum class Role { exchange, sender, receiver };
  /// exchange: every rank of the communicator takes part, each with the rank half-way round, so that with
  /// several ranks to a host the messages cross the link. sender, receiver: one message to or from `peer`.
  EmptyBucket(Communicator& communicator, Role role, int peer, std::int64_t bytes, std::int64_t bucket_bytes);
  EmptyBucket(const EmptyBucket&) = delete;
  EmptyBucket& operator=(const EmptyBucket&) = delete;
  bool test() override;
  /// What the operation's clock must leave out. A receiver, whose clock is its sender's (one machine), leaves
  /// out the emptying alone and not the time that it waited for the sender to encode.
  double untimed_us() const;

 private:
  void arrived();
  Communicator& communicator_;
  Role role_;
  int peer_;
  std::int64_t start_ns_ = now_ns();
  bool told_ = false;
  Buffer out_{Device{}}, in_{Device{}};
  std::array<std::byte, 2> word_{};
  // Last: requests still in flight are waited for before the memory above goes.
  RequestPtr receive_, send_;
};

}  // namespace thinwire
