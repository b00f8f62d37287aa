// A network that exists in arithmetic only: every node has one card, and messages reserve their time on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectives/communicator/communicator.h"
#include "collectives/process/waiter.h"

namespace thinwire {

/// What a message is charged for.
enum class LinkMeter {
  cards,    ///< full-duplex cards and a latency that messages spend side by side
  inbound,  ///< the receiver's one inbound wire, which a message occupies for its bytes and the latency (the speedrun's accounting)
};

/// "emulated:10gbit,latency=20us,frame=9000,node=2,inside=200gbit,inside_latency=2us": rate of a card in each direction, latency between
/// nodes, bytes of a frame (default 0: messages are never interleaved), ranks to a node (default 1), and what joins the ranks of one node
/// (default: nothing in the way). "emulated:200mbit,up=20mbit,latency=15ms": a card that sends at another rate than it receives at (down=: that receives at another).
/// "emulated:200mbit,latency=50ms,meter=inbound": see LinkMeter.
struct EmulatedLink {
  double gbps = 0, latency_us = 0;
  std::int64_t frame_bytes = 0;
  int ranks_per_node = 1;
  double inside_gbps = 0, inside_latency_us = 0;  ///< rate 0: as fast as memory
  double up_only_gbps = 0, down_only_gbps = 0;    ///< in place of `gbps` for what a card sends, receives; 0: as that
  LinkMeter meter = LinkMeter::cards;

  double up_gbps() const { return up_only_gbps > 0 ? up_only_gbps : gbps; }
  double down_gbps() const { return down_only_gbps > 0 ? down_only_gbps : gbps; }
  /// What a message between two nodes goes at, and a ring in which all send and receive at once.
  double slower_gbps() const { return up_gbps() < down_gbps() ? up_gbps() : down_gbps(); }

  static bool is_emulated(const std::string& link) { return link.rfind("emulated:", 0) == 0; }
  /// UsageError naming the faulty part.
  static EmulatedLink parse(const std::string& link);
};

/// The cards of all nodes, in memory that the ranks share. A message of b bytes from node i to node j leaves when the messages reserved
/// before it have left card i, and comes through card j in the first gap between the messages expected there that holds it (cut-through):
///   left = max(now, egress_i) + b / up;   arrival = end of the first gap of b / down at or after left - min(b / up, b / down) + latency
/// with the rates at which a card sends (up) and receives (down). Messages are not interleaved, but those of at most one frame go between the frames of longer ones: they wait
/// for each other alone, on both cards, and what they take of the sending one longer messages wait. Inside a node a message takes latency + b / rate, whatever else travels.
///
/// Under meter=inbound nothing is reserved: cards send for nothing, and a rank is charged when its program takes a message (billed_ns).
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
  /// meter=inbound: when a message of so many bytes, sent at `sent_ns`, is this rank's, which takes it now. Its one wire serves all senders in the order of these calls:
  ///   arrives = max(arrives, sent) + 8 (bytes + meter_header_bytes) / rate + latency
  /// (docs/papers/low_bandwidth_pipeline.md, "The contest's link"). What a message waits for its receiver to ask is not billed twice: the wire was idle, and stays at its time.
  std::int64_t billed_ns(std::int64_t bytes, std::int64_t sent_ns);
  /// Ends the nap of a rank that waits for this one (collectives/process/waiter.h): a nap is longer than the latency of a fast link.
  void wake(int world_rank) { bells_[world_rank].ring(); }
  const EmulatedLink& link() const { return link_; }
  int node_of(int world_rank) const { return world_rank / link_.ranks_per_node; }

 private:
  struct Ingress;
  struct alignas(64) Card;
  /// When the last byte is through.
  std::int64_t through(Ingress& in, std::int64_t first_ns, std::int64_t length_ns, std::int64_t now_ns);
  EmulatedLink link_;
  std::int64_t wire_free_ns_ = 0;  ///< of this rank's inbound wire
  Card* cards_ = nullptr;      ///< one a node, and behind them
  Doorbell* bells_ = nullptr;  ///< one a rank
  std::size_t bytes_ = 0;
  std::optional<Waiter::Listening> listening_;
};

/// What meter=inbound bills besides a message's bytes: the count of its numbers.
inline constexpr std::int64_t meter_header_bytes = 8;

/// Added to a message's tag for the message that says when it arrives; tags of other messages are smaller.
inline constexpr int emulated_stamp_tag = 1 << 20;

/// A communicator whose messages take the network's time. Point-to-point messages carry their arrival; collectives are rings, chains
/// and direct exchanges of such messages. `inner` moves the bytes; barriers and splits are free. The ranks' order must be that of the
/// world (node = world rank / ranks per node).
std::unique_ptr<Communicator> make_emulated_communicator(std::unique_ptr<Communicator> inner, const EmulatedLink& link);

}  // namespace thinwire
