#include "bench/common/link_check.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/clock.h"
#include "core/error.h"
#include "core/statistics.h"

namespace thinwire::bench {
namespace {

constexpr std::int64_t silence_ns = 20'000'000;

std::byte mark(int from, int to, std::size_t i) { return static_cast<std::byte>((from * 31 + to * 17 + static_cast<int>(i % 251)) & 0xff); }

// Seconds from the start of the send on rank 0 to the end of the receive on rank 1, valid on rank 0.
double one_way_seconds(Communicator& world, std::vector<std::byte>& buffer, std::int64_t bytes) {
  world.barrier();
  sleep_until_ns(now_ns() + silence_ns);
  std::int64_t started = 0, arrived = 0;
  if (world.rank() == 0) {
    started = now_ns();
    world.send(buffer.data(), bytes, 1, 1)->wait();
    world.receive(&arrived, sizeof arrived, 1, 2)->wait();
  } else if (world.rank() == 1) {
    world.receive(buffer.data(), bytes, 0, 1)->wait();
    arrived = now_ns();
    world.send(&arrived, sizeof arrived, 0, 2)->wait();
  }
  return static_cast<double>(arrived - started) * 1e-9;
}

// Seconds per round in which every rank sends to the next and receives from the one before.
double ring_seconds(Communicator& world, std::vector<std::byte>& out, std::vector<std::byte>& in, std::int64_t bytes, int rounds) {
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  world.barrier();
  const Stopwatch watch;
  for (int round = 0; round < rounds; ++round) {
    RequestPtr receiving = world.receive(in.data(), bytes, previous, 3);
    RequestPtr sending = world.send(out.data(), bytes, next, 3);
    sending->wait();
    receiving->wait();
  }
  return watch.seconds() / rounds;
}

}  // namespace

void exchange_pairwise(Communicator& world) {
  constexpr std::size_t bytes = 64 * 1024;
  std::vector<std::byte> out(bytes), in(bytes);
  const int me = world.rank(), n = world.size();
  // Distance d: everybody sends to the rank d ahead, so that each ordered pair meets exactly once.
  for (int d = 1; d < n; ++d) {
    const int to = (me + d) % n, from = (me + n - d) % n;
    for (std::size_t i = 0; i < bytes; ++i) out[i] = mark(me, to, i);
    RequestPtr receiving = world.receive(in.data(), bytes, from, d);
    RequestPtr sending = world.send(out.data(), bytes, to, d);
    sending->wait();
    receiving->wait();
    for (std::size_t i = 0; i < bytes; ++i)
      if (in[i] != mark(from, me, i))
        throw WrongResult("the message from rank " + std::to_string(from) + " to rank " + std::to_string(me) + " came damaged at byte " +
                          std::to_string(i));
  }
  world.barrier();
}

std::vector<LinkRates> measure_link(Communicator& world, std::span<const std::int64_t> sizes, int repetitions) {
  if (world.size() < 2) throw UsageError("a link needs two ends: start the link check with 2 ranks or more");
  std::vector<LinkRates> rates;
  for (const std::int64_t bytes : sizes) {
    // Enough rounds that ranks leaving the barrier at different times do not count.
    const int rounds = static_cast<int>(std::clamp<std::int64_t>((std::int64_t{2} << 20) / bytes, 2, 64));
    std::vector<std::byte> out(static_cast<std::size_t>(bytes)), in(out.size());
    one_way_seconds(world, out, bytes);
    ring_seconds(world, out, in, bytes, 1);
    std::vector<double> one_way, ring;
    for (int i = 0; i < repetitions; ++i) {
      one_way.push_back(one_way_seconds(world, out, bytes));
      ring.push_back(ring_seconds(world, out, in, bytes, rounds));
    }
    const double bits = 8e-9 * static_cast<double>(bytes);
    rates.push_back({bytes, bits / median(one_way), bits / median(ring)});
  }
  world.barrier();
  return rates;
}

double nominal_gbps(const std::string& link) {
  const std::size_t colon = link.find(':');
  if (link.rfind("netns:", 0) != 0) return std::numeric_limits<double>::quiet_NaN();
  std::size_t digits = 0;
  const std::string rate = link.substr(colon + 1);
  while (digits < rate.size() && rate[digits] >= '0' && rate[digits] <= '9') ++digits;
  const std::string unit = rate.substr(digits);
  if (digits == 0 || digits > 6 || (unit != "mbit" && unit != "gbit"))
    throw UsageError("link '" + link + "' has no rate like 100mbit or 1gbit after the colon");
  return std::stod(rate.substr(0, digits)) * (unit == "mbit" ? 1e-3 : 1.0);
}

}  // namespace thinwire::bench
