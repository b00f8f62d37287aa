#include "bench/harness/link_trust.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "collectives/link/link_calibration.h"

namespace thinwire::bench {
namespace {

/// Sizes are rounded to powers of two; beyond 16 token buckets (at least 1 MiB) a longer message teaches nothing new
/// about the rate and would only cost link time.
std::int64_t calibrated_size(std::int64_t payload, const std::string& link) {
  const std::int64_t most = std::max<std::int64_t>(1 << 20, 16 * token_bucket_bytes(link));
  const auto rounded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(payload, 1024)) * 3 / 4));
  return std::min(rounded, most);
}

const std::vector<LinkRate>& rates_for(Communicator& world, const std::string& link, std::int64_t size) {
  static std::map<std::pair<std::string, std::int64_t>, std::vector<LinkRate>> known;
  auto& rates = known[{link, size}];
  if (rates.empty()) {
    const std::int64_t sizes[] = {size};
    CalibrationOptions options;
    options.tolerance = link_tolerance;
    // Three trains of messages cost little link time but one of them may meet another job of the machine: what they call
    // untrue is measured once more, longer, and that verdict stands.
    for (int repetitions : {3, 11}) {
      options.repetitions = repetitions;
      rates = calibrate_link(world, link, sizes, options);
      if (std::all_of(rates.begin(), rates.end(), [](const LinkRate& rate) { return rate.trusted; })) break;
    }
  }
  return rates;
}

}  // namespace

void LinkTrust::judge(Measured& measured) {
  if (std::isnan(nominal_link_gbps(context_.link)) || context_.check_only || context_.world.size() < 2) return;
  for (results::CellRow& row : measured.rows) {
    if (row.payload_bytes <= 0) continue;
    for (const LinkRate& rate : rates_for(context_.world, context_.link, calibrated_size(row.payload_bytes, context_.link))) {
      measured.links.push_back({context_.link, context_.world.size(), rate.bytes, rate.direction, rate.nominal_gbps, rate.measured_gbps,
                                rate.trusted ? 1 : 0});
      // A boundary's messages go one way at a time; collectives, and bench_collective's ring of sends, load both directions.
      if ((rate.direction == "one_way") != (row.operation == "send_recv" && row.traffic.starts_with("pp_"))) continue;
      row.link_gbps = rate.measured_gbps;
      if (rate.trusted) continue;
      row.status = results::name_of(results::Status::mistrusted);
      row.reason = rate.reason;
    }
  }
}

}  // namespace thinwire::bench
