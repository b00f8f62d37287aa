#include "collectives/link/emulated_network.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <new>
#include <set>

#include "core/error.h"
#include "core/clock.h"

namespace thinwire {
namespace {

/// "10gbit" -> 10, "400mbit" -> 0.4; 0 when it is neither.
double gbps_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  if (error != std::errc() || !(value > 0)) return 0;
  return unit == "gbit" ? value : unit == "mbit" ? value * 1e-3 : 0;
}

/// "20us" -> 20, "1.5ms" -> 1500; negative when it is neither.
double us_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  if (error != std::errc() || !(value >= 0)) return -1;
  return unit == "us" ? value : unit == "ms" ? value * 1e3 : -1;
}

std::int64_t duration_ns(std::int64_t bytes, double gbps) {
  return gbps > 0 ? static_cast<std::int64_t>(8.0 * static_cast<double>(bytes) / gbps) : 0;
}

/// free = max(free, least) + length; returns the new value.
std::int64_t take(std::atomic<std::int64_t>& free, std::int64_t least, std::int64_t length) {
  std::int64_t before = free.load();
  while (!free.compare_exchange_weak(before, std::max(before, least) + length)) {
  }
  return std::max(before, least) + length;
}

}  // namespace

/// What arrives at a card may be reserved long before it comes, so gaps stay open for others.
struct EmulatedNetwork::Ingress {
  struct Busy {
    std::int64_t begin, end;
  };
  static constexpr int most = 60;
  std::atomic_flag locked;  // clear when zero, as new shared memory is (C++20)
  int count;
  Busy busy[most];  ///< in order, neither touching nor overlapping
};
/// What a card sends is served in order: messages, and those of at most one frame among themselves.
struct alignas(64) EmulatedNetwork::Card {
  std::atomic<std::int64_t> egress_free_ns, frames_free_ns;
  Ingress messages, frames;
};

EmulatedLink EmulatedLink::parse(const std::string& text) {
  EmulatedLink link;
  const auto refuse = [&](const std::string& part, const std::string& why) -> void {
    throw UsageError("link '" + text + "': '" + part + "' " + why +
                     "; write emulated:RATE[,latency=20us][,up=RATE | ,down=RATE][,frame=BYTES][,node=RANKS][,inside=RATE][,inside_latency=2us] or emulated:RATE[,latency=50ms],meter=inbound, "
                     "with rates as 10gbit or 400mbit");
  };
  if (!is_emulated(text)) refuse(text, "is no emulated link");
  std::set<std::string> given;
  std::size_t from = std::strlen("emulated:");
  for (bool first = true; from <= text.size(); first = false) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    const std::string part = text.substr(from, to - from);
    from = to + 1;
    if (first) {
      if ((link.gbps = gbps_of(part)) == 0) refuse(part, "is no rate");
      continue;
    }
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (!given.insert(name).second) refuse(part, "is there twice");
    if (name == "latency" || name == "inside_latency") {
      const double us = us_of(value);
      if (us < 0) refuse(part, "is no time");
      (name == "latency" ? link.latency_us : link.inside_latency_us) = us;
    } else if (name == "inside" || name == "up" || name == "down") {
      if (((name == "inside" ? link.inside_gbps : name == "up" ? link.up_only_gbps : link.down_only_gbps) = gbps_of(value)) == 0) refuse(part, "is no rate");
    } else if (name == "meter") {
      if (value != "inbound") refuse(part, "is no meter; there is meter=inbound, and without one full-duplex cards");
      link.meter = LinkMeter::inbound;
    } else if (name == "frame") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), link.frame_bytes);
      if (error != std::errc() || end != value.data() + value.size() || link.frame_bytes < 1) refuse(part, "is no number of bytes");
    } else if (name == "node") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), link.ranks_per_node);
      if (error != std::errc() || end != value.data() + value.size() || link.ranks_per_node < 1) refuse(part, "is no number of ranks");
    } else {
      refuse(part, "is unknown");
    }
  }
  if (given.contains("up") && given.contains("down")) refuse("up", "and down leave nothing that goes at the first rate; write that of one direction first, and the other as up or down");
  if (link.meter == LinkMeter::inbound)
    for (const char* other : {"up", "down", "frame", "node", "inside", "inside_latency"})
      if (given.contains(other)) refuse(other, "does not go with meter=inbound, which charges each rank's one inbound wire and nothing else");
  return link;
}

EmulatedNetwork::EmulatedNetwork(Communicator& world, const EmulatedLink& link) : link_(link) {
  const int nodes = (world.size() + link.ranks_per_node - 1) / link.ranks_per_node;
  const std::size_t cards_bytes = sizeof(Card) * static_cast<std::size_t>(nodes);
  bytes_ = cards_bytes + sizeof(Doorbell) * static_cast<std::size_t>(world.size());
  // Rank 0 makes the memory; its name is gone again as soon as everybody has it.
  struct Told {
    char name[64];
    int error;
  } told{};
  int file = -1;
  if (world.rank() == 0) {
    std::snprintf(told.name, sizeof told.name, "/thinwire-network-%d-%llx", static_cast<int>(getpid()), static_cast<unsigned long long>(now_ns()));
    file = shm_open(told.name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0) told.error = errno;
  }
  world.broadcast(&told, sizeof told, 0)->wait();
  if (world.rank() != 0 && told.error == 0) file = shm_open(told.name, O_RDWR, 0);
  void* memory = file < 0 ? MAP_FAILED : mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int mine = memory == MAP_FAILED ? (told.error != 0 ? told.error : errno) : 0;
  if (file >= 0) close(file);
  std::int32_t worst = mine, all = 0;
  world.all_reduce(&worst, &all, 1, DType::i32, ReduceOp::max)->wait();
  if (world.rank() == 0) shm_unlink(told.name);
  if (memory != MAP_FAILED) {
    cards_ = static_cast<Card*>(memory);
    bells_ = reinterpret_cast<Doorbell*>(static_cast<std::byte*>(memory) + cards_bytes);
  }
  if (all != 0)
    throw EnvironmentError("an emulated link needs memory that all ranks share: " + std::string(std::strerror(all)) +
                           "; start all ranks on one machine, with a writable /dev/shm");
  if (world.rank() == 0) {
    for (int i = 0; i < nodes; ++i) new (&cards_[i]) Card{};
    for (int i = 0; i < world.size(); ++i) new (&bells_[i]) Doorbell{};
  }
  world.barrier();
  listening_.emplace(bells_[world.rank()]);
}

EmulatedNetwork::~EmulatedNetwork() {
  listening_.reset();
  if (cards_ != nullptr) munmap(static_cast<void*>(cards_), bytes_);
}

std::int64_t EmulatedNetwork::through(Ingress& in, std::int64_t first, std::int64_t length, std::int64_t now) {
  while (in.locked.test_and_set(std::memory_order_acquire)) sched_yield();
  int past = 0;
  while (past < in.count && in.busy[past].end <= now) ++past;
  std::copy(in.busy + past, in.busy + in.count, in.busy);
  in.count -= past;
  int at = 0;
  std::int64_t begin = first;
  for (; at < in.count && begin + length > in.busy[at].begin; ++at) begin = std::max(begin, in.busy[at].end);
  const std::int64_t end = begin + length;
  const bool joins_before = at > 0 && in.busy[at - 1].end == begin, joins_behind = at < in.count && in.busy[at].begin == end;
  if (joins_before && joins_behind) {
    in.busy[at - 1].end = in.busy[at].end;
    std::copy(in.busy + at + 1, in.busy + in.count, in.busy + at);
    --in.count;
  } else if (joins_before) {
    in.busy[at - 1].end = end;
  } else if (joins_behind) {
    in.busy[at].begin = begin;
  } else {
    const bool full = in.count == Ingress::most, covered = full && at == in.count - 1;
    if (full) {  // no room to remember a gap: the last two messages become one, and with them what came between
      in.busy[in.count - 2].end = in.busy[in.count - 1].end;
      --in.count;
      at = std::min(at, in.count);
    }
    if (!covered) {
      std::copy_backward(in.busy + at, in.busy + in.count, in.busy + in.count + 1);
      in.busy[at] = {begin, end};
      ++in.count;
    }
  }
  in.locked.clear(std::memory_order_release);
  return end;
}

EmulatedNetwork::Times EmulatedNetwork::reserve(int from, int to, std::int64_t bytes, std::int64_t now_ns) {
  if (node_of(from) == node_of(to)) {
    const std::int64_t left = now_ns + duration_ns(bytes, link_.inside_gbps);
    return {left, left + static_cast<std::int64_t>(link_.inside_latency_us * 1e3)};
  }
  if (link_.meter == LinkMeter::inbound) return {now_ns, now_ns};
  const std::int64_t out = duration_ns(bytes, link_.up_gbps()), in = duration_ns(bytes, link_.down_gbps()), latency = static_cast<std::int64_t>(link_.latency_us * 1e3);
  const std::int64_t left = take(cards_[node_of(from)].egress_free_ns, now_ns, out);
  // Its first byte reaches the other card one latency after it left this one. A card that receives faster than the other sends is busy for the last part of that time only.
  const auto arrival = [&](Ingress& ingress, std::int64_t last_left) { return through(ingress, last_left - std::min(out, in) + latency, in, now_ns); };
  Card& other = cards_[node_of(to)];
  if (bytes > link_.frame_bytes) return {left, arrival(other.messages, left)};
  const std::int64_t small_left = take(cards_[node_of(from)].frames_free_ns, now_ns, out);
  return {small_left, arrival(other.frames, small_left)};
}

std::int64_t EmulatedNetwork::billed_ns(std::int64_t bytes, std::int64_t sent_ns) {
  const std::int64_t length = duration_ns(bytes + meter_header_bytes, link_.gbps) + static_cast<std::int64_t>(link_.latency_us * 1e3);
  return wire_free_ns_ = std::max(wire_free_ns_, sent_ns) + length;
}

}  // namespace thinwire
