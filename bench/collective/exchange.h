// One exchange of data parallelism as a bench runs it again and again: a chain of channels, or between the owners of rows in two steps, inside nodes and across.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/harness/bench_program.h"
#include "collectives/channel/channel.h"
#include "collectives/communicator/process_mesh.h"
#include "core/device/tensor.h"

namespace thinwire::bench {

class Exchange {
 public:
  virtual ~Exchange() = default;
  /// From x to outs.back(); what is between the steps of a chain lies before it. The report is the sum of all operations'.
  virtual OperationReport run(const Tensor& x, std::span<Tensor> outs, const MessageKey& key) = 0;
  /// Those that carry it, in the order of the steps.
  virtual std::vector<Channel*> channels() = 0;
  /// "" or, of an exchange with a channel for what stays inside a node and one for what crosses, ".inside" and ".across".
  virtual std::string step_name(std::size_t) const { return ""; }
};

/// What each step of an exchange that names its steps cost each rank of the world, in its last run. Empty for a chain. Collective.
struct Bytes {
  std::int64_t dense = 0, payload = 0, link = 0, received = 0;
};
using StepBytes = std::vector<std::vector<Bytes>>;  ///< [step][rank]
StepBytes bytes_of_steps(Exchange& exchange, Communicator& world);

/// reduce_scatter, all_gather (one group), or sums over the groups one after another.
std::unique_ptr<Exchange> make_chain(std::span<const std::unique_ptr<Communicator>> groups, const std::string& operation, const ChannelOptions& options, std::int64_t bucket_bytes);

/// Of the ranks of the world as `axis` splits them into nodes, by the very exchange that trains sharded models (models/parallel/channels/row_exchange.h).
struct TwoLevelOptions {
  std::string operation;                ///< "reduce_scatter" or "all_gather"
  DataAxis axis;                        ///< replicas = 1; ranks of a node are adjacent
  std::string inside = uncompressed;    ///< codec of what stays inside a node; that of ChannelOptions is for what crosses
  int under_way = 1;                    ///< this many matrices at once, all like the first: the second step of one goes beside the first of the next
  std::int64_t bucket_bytes = 0;        ///< Channel::empty_bucket_before_transfers
};
std::unique_ptr<Exchange> make_two_levels(Communicator& world, const TwoLevelOptions& levels, const ChannelOptions& options);

/// Microseconds that what crosses nodes needs on their cards, whatever else happens: 8 bytes / rate of the card that has most to send (`crossing` by rank of the world). NaN
/// unless `link` is emulated, in full duplex, with nodes of `per_node` ranks: a token bucket lets bytes pass after a pause, and of other machines' cards we know no rate.
double card_time_us(const std::string& link, std::span<const Bytes> crossing, int per_node);

}  // namespace thinwire::bench
