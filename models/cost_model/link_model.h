// What a message costs on a link: latency + bytes / rate (Hockney 1994), and collectives built of such messages.
#pragma once

#include <cstdint>
#include <limits>

namespace thinwire {

struct LinkModel {
  double latency_us = 0;                                   ///< of one message
  double gbps = std::numeric_limits<double>::infinity();  ///< of one rank, in each direction

  double message_us(double bytes) const { return latency_us + 8e-3 * bytes / gbps; }
  /// Ring all-reduce of `bytes` per rank over n ranks: 2 (n-1) messages of bytes / n, one after the other.
  double ring_all_reduce_us(double bytes, int n) const { return n > 1 ? 2.0 * (n - 1) * message_us(bytes / n) : 0; }
  /// Ring all-gather (or reduce-scatter) in which every rank contributes `bytes`: n-1 messages of that size.
  double ring_all_gather_us(double bytes, int n) const { return n > 1 ? (n - 1) * message_us(bytes) : 0; }
};

}  // namespace thinwire
