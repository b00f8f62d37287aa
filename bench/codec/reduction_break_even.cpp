#include "bench/codec/reduction_break_even.h"

#include "core/formulas.h"

namespace thinwire::bench {

std::vector<ReductionCost> reduction_costs(const CodecTraits& traits, int ranks, double dense_bytes, double payload_bytes, double encode_us, double decode_us) {
  std::vector<ReductionCost> costs;
  if (ranks < 2) return costs;
  const double n = ranks, ring = 2 * (n - 1) / n;
  const auto add = [&](const char* protocol, double link_bytes, double encodes, double decodes) {
    ReductionCost cost{protocol, link_bytes, ring * dense_bytes, encodes * encode_us, decodes * decode_us, 0};
    cost.break_even_gbps = break_even_gbps(cost.dense_link_bytes, cost.link_bytes, cost.encode_us + cost.decode_us);
    costs.push_back(cost);
  };
  if (traits.rounds > 0) add("rounds", ring * payload_bytes, 1, 1);
  if (traits.gather) {
    add("gather", (n - 1) * payload_bytes, 1, n);
    add("two_shot", ring * payload_bytes, 1 + 1 / n, 2);
  }
  return costs;
}

}  // namespace thinwire::bench
