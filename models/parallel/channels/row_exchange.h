// Matrices cut by rows over the ranks of a replica: who owns which rows, and how rows are gathered and gradients reduced to them. Without nodes
// in one step over all ranks; with nodes (--dp-nodes) in two, each by a channel and a codec of its own, as ZeRO++ and SDP4Bit do it: gradients are summed inside
// a node first, so that 1/L of them leaves it; weights cross nodes as the rows of their owners and are then gathered inside.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communicator/process_mesh.h"
#include "models/parallel/channels/channel_pair.h"
#include "models/parallel/channels/channel_spec.h"

namespace thinwire {

/// The data axis as one rank of it sees it. Of a matrix the ranks with place l inside their nodes share block l of its rows, and of that the rank in
/// node n owns block n: so a sum inside the node leaves what has to cross nodes in one piece.
struct RowOwners {
  DataAxis axis;
  DataCoordinates at;
  bool two_levels() const { return axis.nodes > 1 && axis.inside > 1; }
  RowBlock of_node(std::int64_t rows) const { return two_levels() ? shard_rows(rows, at.inside, axis.inside) : RowBlock{0, rows}; }
  RowBlock own(std::int64_t rows) const {
    if (!two_levels()) return shard_rows(rows, at.within_replica, axis.within_replica());
    const RowBlock block = of_node(rows), part = shard_rows(block.count, at.node, axis.nodes);
    return {block.first + part.first, part.count};
  }
};

/// Channels of an exchange called `name`: one, or NAME.inside (CompressRule::inside) and NAME.across. `spec` says the rest.
std::vector<ChannelSpec> row_exchange_channels(const ChannelSpec& spec, const DataAxis& axis);

class RowExchange {
 public:
  struct Message;
  /// One tensor under way. Messages of an exchange take their second step in the order in which they took the first, on all ranks alike. Over channels that are
  /// ordered() they take it where the program waits for it or for a later one's, never because a first step was seen to have ended.
  using Ticket = std::shared_ptr<Message>;

  RowExchange(const NamedChannels& channels, const std::string& name, const RowOwners& owners, int stage);
  /// False: there is nobody to share with.
  explicit operator bool() const { return flat_ || inside_; }
  const RowOwners& owners() const { return owners_; }

  /// whole [rows, columns] = the owners' rows; `rows` are this rank's. Both stay valid until wait(). Before, `whole` is what all ranks held so far, where codecs remember it. `node_rows`, of two levels: gets the block that
  /// the node's rank of this number shares with it in other nodes, as it arrived.
  Ticket gather(int layer, const MessageKey& key, ConstTensorView rows, TensorView whole, Tensor* node_rows = nullptr);
  /// The same from such blocks, without leaving the node (the secondary shards of ZeRO++'s hpZ).
  Ticket gather_inside(int layer, const MessageKey& key, const Tensor& node_rows, TensorView whole);
  /// rows = this rank's of the sum (or mean) over ranks of `whole`. Likewise.
  Ticket reduce(int layer, const MessageKey& key, ConstTensorView whole, TensorView rows);
  /// Begins second steps of messages whose first has ended, without waiting; over ordered channels nothing.
  void progress();
  /// Adds the time to `waited_us`; `what` names it in the trace.
  void wait(const Ticket& ticket, const char* what, double& waited_us);
  /// Coded gathers: what was encoded is not sent again (Channel::forget_payloads).
  void forget_payloads();

 private:
  Channel& channel(ChannelPair& pair, const Message& m) const;
  /// That channel, for a gather of a tensor, or of the block of it that its group has, of which all ranks of the group hold `held`.
  Channel& gathering(ChannelPair& pair, const Message& m, ConstTensorView held);
  /// A new message; with two levels it has a block of its own, unless `block` is given.
  Ticket message(int layer, const MessageKey& key, bool gathers, TensorView out, const Shape& whole, Tensor* block);
  void start_second(Message& m);
  /// Of the first message without a second step: waits for its first, and begins it.
  void start_next();
  /// Waits until every message has begun its second step.
  void progress_all();

  RowOwners owners_;
  int stage_;
  ChannelPair *flat_ = nullptr, *inside_ = nullptr, *across_ = nullptr;
  bool ordered_;  ///< one of the two steps' channels is
  std::set<std::pair<const ChannelPair*, std::uint64_t>> started_;  ///< coded gathers so far, by tensor
  std::deque<Ticket> first_;  ///< whose second step has not begun
  std::vector<std::unique_ptr<Tensor>> spare_;  ///< blocks between the steps
};

}  // namespace thinwire
