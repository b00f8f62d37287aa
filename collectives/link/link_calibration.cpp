#include "collectives/link/link_calibration.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "collectives/process/rank_clock.h"
#include "collectives/process/waiter.h"
#include "core/clock.h"
#include "core/device/device.h"
#include "core/random.h"
#include "core/statistics.h"

namespace thinwire {
namespace {

constexpr int calibration_tag = 31010;
constexpr std::int64_t warm_up_bytes = 1 << 20;
constexpr std::int64_t small_frame = 1500, large_frame = 9000;  // MTU below 1 Gbit/s, and from there

/// Ranks that share this rank's host name: namespaces of one machine have names of their own.
int ranks_on_this_host(Communicator& world) {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const std::uint64_t mine = hash_name(name);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
  world.all_gather(&mine, sizeof mine, all.data())->wait();
  return static_cast<int>(std::count(all.begin(), all.end(), mine));
}

double maximum_over_ranks(Communicator& world, double value) {
  double result = value;
  world.all_reduce(&value, &result, 1, DType::f64, ReduceOp::max)->wait();
  return result;
}

/// Waits for all requests, each of which may need the others' progress.
void finish(std::vector<RequestPtr>& requests) {
  Waiter waiter;
  for (bool all = false; !all; waiter.pause()) {
    all = true;
    for (RequestPtr& request : requests) {
      if (request && request->test()) request.reset();
      all = all && !request;
    }
  }
}

/// Messages of one train: enough that the bucket and the latency of the machine are small against their time.
std::int64_t train_length(std::int64_t bytes, std::int64_t bucket) {
  constexpr std::int64_t buckets = 16;
  return std::max<std::int64_t>(2, (buckets * bucket + bytes - 1) / bytes);
}

/// Microseconds from the sender's start to the arrival of the train's last message; 0 where none is received.
double train_us(Communicator& world, std::int64_t bytes, std::int64_t messages, bool both_ways, int shift,
                Buffer& out, Buffer& in) {
  const int n = world.size(), me = world.rank();
  const bool sends = both_ways || me == 0;
  const bool receives = both_ways || me == shift;
  const int to = (me + shift) % n, from = (me - shift + n) % n;
  std::vector<RequestPtr> requests;
  for (std::int64_t i = 0; i < messages && receives; ++i) {
    requests.push_back(world.receive(in.data() + i * bytes, bytes, from, calibration_tag));
  }
  const std::int64_t start = RankClock::now_ns();
  std::memcpy(out.data(), &start, sizeof start);  // the receiver's clock is the sender's: one machine
  for (std::int64_t i = 0; i < messages && sends; ++i)
    requests.push_back(world.send(out.data(), bytes, to, calibration_tag));
  finish(requests);
  if (!receives) return 0;
  const std::int64_t end = RankClock::now_ns();
  std::int64_t set_out = 0;
  std::memcpy(&set_out, in.data(), sizeof set_out);
  return static_cast<double>(end - set_out) * 1e-3;
}

}  // namespace

double nominal_link_gbps(const std::string& link) {
  if (link.rfind("netns:", 0) != 0) return std::numeric_limits<double>::quiet_NaN();
  double rate = 0;
  char unit[8] = {};
  int used = 0;
  const std::string text = link.substr(6);
  if (std::sscanf(text.c_str(), "%lf%7[a-z]%n", &rate, unit, &used) != 2 ||
      used != static_cast<int>(text.size()) || !(rate > 0)) {
    throw UsageError("link '" + link + "' names no rate; write netns:100mbit or netns:1gbit");
  }
  const std::string suffix = unit;
  if (suffix == "gbit") return rate;
  if (suffix == "mbit") return rate * 1e-3;
  if (suffix == "kbit") return rate * 1e-6;
  throw UsageError("link '" + link + "': unit '" + suffix + "' is none of kbit, mbit, gbit");
}

std::int64_t token_bucket_bytes(const std::string& link) {
  const double gbps = nominal_link_gbps(link);
  if (std::isnan(gbps)) return 0;
  const std::int64_t frame = link_mtu(link) + 14;  // with its Ethernet header
  return std::max(static_cast<std::int64_t>(gbps * 1e9 / 8 * 480e-6), 4 * frame);
}

std::int64_t link_mtu(const std::string& link) { return nominal_link_gbps(link) < 1 ? small_frame : large_frame; }

std::vector<LinkRate> calibrate_link(Communicator& world, const std::string& link,
                                     std::span<const std::int64_t> sizes, const CalibrationOptions& options) {
  std::vector<LinkRate> rates;
  if (world.size() < 2) return rates;
  const double nominal = nominal_link_gbps(link);
  const double sharing = maximum_over_ranks(world, ranks_on_this_host(world));
  // The next rank of another host: the connections that a ring uses.
  const int shift = sharing < world.size() ? static_cast<int>(sharing) : 1;
  Buffer out, in;
  const std::int64_t bucket = token_bucket_bytes(link);
  for (std::int64_t asked : sizes) {
    if (asked <= 0) continue;
    const std::int64_t bytes = std::max<std::int64_t>(asked, sizeof(std::int64_t));
    const std::int64_t messages = train_length(bytes, bucket);
    out.reserve(static_cast<std::size_t>(std::max(bytes, warm_up_bytes)));
    in.reserve(static_cast<std::size_t>(std::max(messages * bytes, warm_up_bytes)));
    for (bool both_ways : {false, true}) {
      // The first message opens connections, and their windows grow with the next; operations find them
      // grown.
      for (int i = 0; i < 2; ++i) {
        world.barrier();
        train_us(world, warm_up_bytes, 1, both_ways, shift, out, in);
      }
      std::vector<double> times;
      for (int i = 0; i < options.repetitions; ++i) {
        world.barrier();
        sleep_until_ns(now_ns() + static_cast<std::int64_t>(options.idle_gap_s * 1e9));
        world.barrier();
        times.push_back(
            maximum_over_ranks(world, train_us(world, bytes, messages, both_ways, shift, out, in)));
      }
      LinkRate row;
      row.bytes = asked;
      row.direction = both_ways ? "both_ways" : "one_way";
      // One rank alone has its host's link to itself.
      row.nominal_gbps = both_ways ? nominal / sharing : nominal;
      // What the bucket held passed at memory speed and tells nothing about the rate.
      row.measured_gbps =
          static_cast<double>(messages * bytes - bucket) * 8e-3 / std::max(median(times), 1e-3);
      const double difference = row.measured_gbps / row.nominal_gbps - 1;
      if (!std::isnan(difference) && std::abs(difference) > options.tolerance) {
        row.trusted = false;
        char text[160];
        std::snprintf(text, sizeof text, "%lld bytes %s at %.4g Gbit/s instead of %.4g (%+.0f %%)",
                      static_cast<long long>(asked), both_ways ? "both ways" : "one way", row.measured_gbps,
                      row.nominal_gbps, difference * 100);
        row.reason = text;
      }
      rates.push_back(row);
    }
  }
  return rates;
}

double measure_latency_us(Communicator& world) {
  const int last = world.size() - 1;
  double result = 0;
  if (last > 0 && (world.rank() == 0 || world.rank() == last)) {
    std::int64_t word = 0;
    std::vector<double> halves;
    for (int i = 0; i < 41; ++i) {
      const std::int64_t begin = RankClock::now_ns();
      if (world.rank() == 0) {
        world.send(&word, sizeof word, last, calibration_tag)->wait();
        world.receive(&word, sizeof word, last, calibration_tag)->wait();
      } else {
        world.receive(&word, sizeof word, 0, calibration_tag)->wait();
        world.send(&word, sizeof word, 0, calibration_tag)->wait();
      }
      halves.push_back(static_cast<double>(RankClock::now_ns() - begin) * 0.5e-3);
    }
    result = median(halves);
  }
  world.broadcast(&result, sizeof result, 0)->wait();
  return result;
}

}  // namespace thinwire
