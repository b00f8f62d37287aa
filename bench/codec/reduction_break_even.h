// What an all-reduce with a codec costs under each protocol, from the times of one encode and one decode of the whole tensor. A model, and named
// so in records: it counts bytes and codec work, no latency and no overlap.
#pragma once

#include <string>
#include <vector>

#include "kernels/codec/codec.h"

namespace thinwire::bench {

struct ReductionCost {
  std::string protocol;        ///< rounds, gather, two_shot
  double link_bytes = 0;       ///< sent by a rank
  double dense_link_bytes = 0; ///< sent by a rank of the uncompressed ring
  double encode_us = 0, decode_us = 0;
  double break_even_gbps = 0;  ///< Gbit/s per rank and direction (core/formulas.h)
};

/// The protocols that a codec of these traits may use (docs/collectives.md), over `ranks` ranks, with dense and payload bytes of one rank's tensor:
///   rounds    the payload summed by a ring: 2 (n-1)/n C; one encode, one decode
///   gather    (n-1) C; one encode, n decodes
///   two_shot  pieces to their owners, sums encoded again and gathered: 2 (n-1)/n C; 1 + 1/n encodes, 2 decodes
/// against 2 (n-1)/n D of the dense ring. Empty for fewer than two ranks.
std::vector<ReductionCost> reduction_costs(const CodecTraits& traits, int ranks, double dense_bytes, double payload_bytes, double encode_us, double decode_us);

}  // namespace thinwire::bench
