// What a link really gives, for the message sizes that will be sent over it, against what its name promises.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"

namespace thinwire {

/// Nominal rate of "netns:100mbit", "netns:1gbit", ... in Gbit/s per host and direction; NaN for links
/// without a rate (shm, fabric). UsageError for a name that looks like a rate and is none.
double nominal_link_gbps(const std::string& link);
/// Size of the token bucket that the launcher gives such a link (experiments/lab/inside.sh): 480 us of the
/// rate, at least four frames; 0 for links without a rate. For Channel::empty_bucket_before_transfers.
std::int64_t token_bucket_bytes(const std::string& link);
/// Largest IP packet of such a link in bytes: 1500 below 1 Gbit/s, else 9000.
std::int64_t link_mtu(const std::string& link);

/// One row of the table /links.
struct LinkRate {
  std::int64_t bytes = 0;
  std::string direction;     ///< "one_way" or "both_ways" (every rank sends and receives at once)
  double nominal_gbps = 0;   ///< this rank's share of its host's link; NaN when the link has no rate
  double measured_gbps = 0;  ///< payload bits per second / 1e9: median over repetitions of the slowest rank
  bool trusted = true;
  std::string reason;  ///< why not, in words
};

struct CalibrationOptions {
  int repetitions = 5;
  double idle_gap_s =
      0.02;  ///< before each transfer, so that token buckets fill as they do between operations
  double tolerance = 0.15;  ///< relative difference from nominal above which a rate is mistrusted
};

/// Measures the link `link` between the ranks of `world`, each to the next rank of another host, for messages
/// of these sizes: after the gap a train of messages, back to back, long enough (16 buckets) that the
/// machine's latency does not count; the bucket's content, which passes at memory speed, is left out. Late
/// polling can only lower the rate. Equal results on all ranks, which must share a clock (one machine).
/// Collective. Nothing for a single rank.
std::vector<LinkRate> calibrate_link(Communicator& world, const std::string& link,
                                     std::span<const std::int64_t> sizes,
                                     const CalibrationOptions& options = {});

/// Half a round trip of 8 bytes between the first and the last rank, microseconds: median of 41. Equal on all ranks. Collective.
double measure_latency_us(Communicator& world);

}  // namespace thinwire
