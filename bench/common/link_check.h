// Small MPI programs inside `doctor`: a hello with pairwise exchange, and the rate of the link between ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.h"

namespace thinwire::bench {

/// Every pair of ranks exchanges a message whose content tells sender and receiver; throws WrongResult naming the
/// pair whose message came damaged. Collective.
void exchange_pairwise(Communicator& world);

/// Rates of one message size, payload bits per second over 1e9, medians over repetitions.
struct LinkRates {
  std::int64_t bytes = 0;
  double one_way_gbps = 0;  ///< rank 0 to rank 1, each message after 20 ms of silence
  double ring_gbps = 0;     ///< each rank to the next, all at once, back to back
};

/// Measures the link between the ranks of `world` (2 or more; all on one machine, whose monotonic clock they share).
/// Collective; the result counts on rank 0. UsageError with a single rank.
std::vector<LinkRates> measure_link(Communicator& world, std::span<const std::int64_t> sizes, int repetitions);

/// Nominal rate of "netns:100mbit", "netns:4gbit" in Gbit/s; NaN for a link without a rate.
double nominal_gbps(const std::string& link);

}  // namespace thinwire::bench
