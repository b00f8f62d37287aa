// What one finished operation of a channel cost on a rank, and sums of such reports.
#pragma once

#include <cstdint>

namespace thinwire {

/// What one finished operation cost on this rank, or a sum over operations. Times in microseconds.
struct OperationReport {
  double encode_us = 0;    ///< all codec work before or between transfers (rounds included)
  double transfer_us = 0;  ///< waiting for the link
  double decode_us = 0;
  double total_us = 0;       ///< start to end, without untimed_us
  double untimed_us = 0;     ///< emptying token buckets before timed transfers
  double encode_cpu_us = 0;  ///< CPU time of the same work (all threads of the rank)
  double decode_cpu_us = 0;
  std::int64_t dense_bytes = 0;    ///< the tensor in its wire type
  std::int64_t payload_bytes = 0;  ///< handed over by this rank, headers and indices included
  std::int64_t link_bytes = 0;     ///< sent by this rank under the named algorithm
  std::int64_t received_bytes = 0;
  std::int64_t reused_payloads = 0;  ///< sent as they were encoded for an earlier operation (ChannelOptions::reuse_payloads)
  /// What link_bytes was counted under, e.g. "ring all_reduce", "library all_reduce (counted as ring)",
  /// "all_gather of payloads", "all_reduce, slice kept". Never null.
  const char* algorithm = "";

  /// Adds the times and bytes of `other`; the algorithm becomes that of `other` unless it names none.
  OperationReport& operator+=(const OperationReport& other);
};

}  // namespace thinwire
