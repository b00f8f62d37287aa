// A network that exists in arithmetic only: every node has one card, and messages reserve their time on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "collectives/communicator/communicator.h"

namespace thinwire {

/// "emulated:10gbit,latency=20us,frame=9000,node=2,inside=200gbit,inside_latency=2us": rate of a card in each direction, latency between
/// nodes, bytes of a frame (default 0: messages are never interleaved), ranks to a node (default 1), and what joins the ranks of one node
/// (default: nothing in the way).
struct EmulatedLink {
  double gbps = 0, latency_us = 0;
  std::int64_t frame_bytes = 0;
  int ranks_per_node = 1;
  double inside_gbps = 0, inside_latency_us = 0;  ///< rate 0: as fast as memory

  static bool is_emulated(const std::string& link) { return link.rfind("emulated:", 0) == 0; }
  /// UsageError naming the faulty part.
  static EmulatedLink parse(const std::string& link);
};

/// The cards of all nodes, in memory that the ranks share. A message of b bytes from node i to node j leaves when the messages reserved
/// before it have left card i, and comes through card j in the first gap between the messages expected there that holds it (cut-through):
///   left = max(now, egress_i) + b / rate;   arrival = end of the first gap of b / rate at or after left - b / rate + latency
/// Messages are not interleaved, but those of at most one frame go between the frames of longer ones and take their time from them:
/// left = now + b / rate, arrival = left + latency. Inside a node a message takes latency + b / rate, whatever else travels.
class EmulatedNetwork {
 public:
  /// Collective. UsageError when the ranks of `world` do not share one machine.
  EmulatedNetwork(Communicator& world, const EmulatedLink& link);
  ~EmulatedNetwork();
  EmulatedNetwork(const EmulatedNetwork&) = delete;
  EmulatedNetwork& operator=(const EmulatedNetwork&) = delete;

  struct Times {
    std::int64_t left_ns = 0, arrival_ns = 0;  ///< CLOCK_MONOTONIC
  };
  /// Reserves the cards for a message that sets out at `now_ns`. Ranks of the world.
  Times reserve(int from, int to, std::int64_t bytes, std::int64_t now_ns);
  const EmulatedLink& link() const { return link_; }
  int node_of(int world_rank) const { return world_rank / link_.ranks_per_node; }

 private:
  struct alignas(64) Card;
  std::int64_t through(Card& card, std::int64_t first_ns, std::int64_t length_ns, std::int64_t now_ns);
  EmulatedLink link_;
  Card* cards_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Added to a message's tag for the message that says when it arrives; tags of other messages are smaller.
inline constexpr int emulated_stamp_tag = 1 << 20;

/// A communicator whose messages take the network's time. Point-to-point messages carry their arrival; collectives are rings, chains
/// and direct exchanges of such messages. `inner` moves the bytes; barriers and splits are free. The ranks' order must be that of the
/// world (node = world rank / ranks per node).
std::unique_ptr<Communicator> make_emulated_communicator(std::unique_ptr<Communicator> inner, const EmulatedLink& link);

}  // namespace thinwire
