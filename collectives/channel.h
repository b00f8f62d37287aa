// A channel: one traffic class bound to a communicator of its own, a codec with its state, and a meter.
// Everything that crosses a link goes through here, in the trainer and in the benches alike.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "collectives/traffic.h"
#include "kernels/codec/registry.h"

namespace thinwire {

/// What one finished operation cost on this rank. Times in microseconds.
struct OperationReport {
  double encode_us = 0;    ///< all codec work before or between transfers (rounds included)
  double transfer_us = 0;  ///< waiting for the link
  double decode_us = 0;
  double total_us = 0;
  double encode_cpu_us = 0;  ///< CPU time of the same work (all threads of the rank)
  double decode_cpu_us = 0;
  std::int64_t dense_bytes = 0;    ///< the tensor in its wire type
  std::int64_t payload_bytes = 0;  ///< handed over by this rank, headers and indices included
  std::int64_t link_bytes = 0;     ///< sent by this rank under the named algorithm
  std::int64_t received_bytes = 0;
};

/// Sums over the operations of a channel; reset by the user. Nothing else counts bytes or times stages.
class Meter {
 public:
  void add(const OperationReport& report);
  void reset() { *this = Meter(); }
  const OperationReport& last() const { return last_; }
  const OperationReport& total() const { return total_; }
  std::int64_t operations() const { return operations_; }

 private:
  OperationReport last_, total_;
  std::int64_t operations_ = 0;
};

struct ChannelOptions {
  TrafficClass traffic = TrafficClass::control;
  std::string codec = "none";
  Form form = Form::fair;
  Protocol protocol = Protocol::automatic;
  DType wire = DType::f16;  ///< type of a dense transfer; dense_bytes counts in it
  DenseAlgorithm algorithm = DenseAlgorithm::library;  ///< for dense reductions, also inside `rounds`
  bool average = false;     ///< divide a reduction by the number of ranks, once
};

/// A pending channel operation. Operations of a channel run strictly first in, first out.
class Operation {
 public:
  Operation() = default;
  bool valid() const { return state_ != nullptr; }
  /// True when finished; makes progress on the channel.
  bool test();
  /// Blocks until finished and returns what it cost.
  const OperationReport& wait();

  struct State;
  explicit Operation(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

class Channel {
 public:
  /// Duplicates `group`. Throws UsageError when codec, protocol and communicator cannot go together.
  Channel(Communicator& group, ChannelOptions options);
  ~Channel();
  Channel(Channel&&) noexcept;

  /// out = sum (or mean) over ranks of `in`. Shapes equal on all ranks; f32; `out` may be `in`.
  Operation all_reduce(ConstTensorView in, TensorView out, const MessageKey& key);
  /// `in` [rows, columns] is split by rows into size() blocks as evenly as shard_rows says; out = my block of the sum.
  Operation reduce_scatter(ConstTensorView in, TensorView out, const MessageKey& key);
  /// out [sum of rows, columns] = all ranks' blocks; the owner, too, gets its decoded block.
  Operation all_gather(ConstTensorView in, TensorView out, const MessageKey& key);
  Operation broadcast(TensorView data, int root, const MessageKey& key);
  Operation reduce(ConstTensorView in, TensorView out, int root, const MessageKey& key);
  Operation send(ConstTensorView in, int to, const MessageKey& key);
  Operation receive(TensorView out, int from, const MessageKey& key);
  /// Advances pending operations; call between instructions (MPI collectives do not progress by themselves).
  void progress();

  /// Fits a trained codec; every rank passes equal samples.
  void fit(std::span<const ConstTensorView> samples);
  void set_compute(ComputeMode mode);

  Communicator& communicator();
  const ChannelOptions& options() const;
  /// The protocol in use (never `automatic`).
  Protocol protocol() const;
  CodecStack& codec();
  Meter& meter();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// First row and row count of block `index` of `blocks` over `rows`: the first rows % blocks blocks are one longer.
struct RowBlock {
  std::int64_t first, count;
};
RowBlock shard_rows(std::int64_t rows, int index, int blocks);

}  // namespace thinwire
