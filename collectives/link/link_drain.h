// Keeping a token-bucket link honest while a program runs over it, where pauses for untimed messages would falsify the run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/clock.h"

namespace thinwire {

/// A link that rested lets the content of its token bucket through at memory speed (docs/measuring.md). The drain keeps account of
/// this rank's bucket and, just before a transfer, spends what is in it on datagrams that nobody receives: they pass the rank's
/// shaper and end at the switch. Costs microseconds and no link time. One per rank that has its host to itself; shared by all its
/// channels (Channel::drain_link_before_transfers).
class LinkDrain {
 public:
  /// Nothing for a link without a rate, and where the launcher names no sink (THINWIRE_LINK_SINK: several ranks share a host's
  /// bucket, or another launcher made the link). Throws EnvironmentError when the sink cannot be reached.
  static std::unique_ptr<LinkDrain> open(const std::string& link);
  LinkDrain(const LinkDrain&) = delete;
  LinkDrain& operator=(const LinkDrain&) = delete;
  ~LinkDrain();

  /// `bytes` are about to be sent.
  void before_transfer(std::int64_t bytes);
  /// An exchange with partners has ended, whose last bytes left only now.
  void exchange_ended();
  std::int64_t drained_bytes() const { return drained_; }

 private:
  LinkDrain(int socket, double bytes_per_ns, std::int64_t bucket, std::int64_t datagram);
  void refill();
  void spend(std::int64_t bytes);

  int socket_;
  double bytes_per_ns_;
  double tokens_;  ///< what may pass at once; negative while earlier bytes still wait for their turn
  std::int64_t bucket_, datagram_, drained_ = 0, seen_ns_ = now_ns();
};

}  // namespace thinwire
