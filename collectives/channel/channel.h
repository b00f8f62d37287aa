// A channel: one traffic class bound to a communicator of its own, a codec with its state, and a meter.
// Everything that crosses a link goes through here, in the trainer and in the benches alike.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "collectives/communicator/cost_terms.h"
#include "collectives/channel/operation_report.h"
#include "collectives/channel/traffic.h"
#include "kernels/codec/registry.h"

namespace thinwire {

class LinkDrain;

/// Sums over the operations of a channel; reset by the user. Nothing else counts bytes or times codecs.
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

/// A tensor that counts as small (ChannelOptions::small_at_once): at 100 Mbit/s it takes 84 ms, longer than most latencies.
inline constexpr std::int64_t small_bytes = 1 << 20;

struct ChannelOptions {
  TrafficClass traffic = TrafficClass::control;
  std::string codec = uncompressed;
  Form form = Form::fair;
  Protocol protocol = Protocol::automatic;
  DType comm_dtype = DType::f16;                             ///< type of a dense transfer; dense_bytes counts in it
  DenseAlgorithm algorithm = DenseAlgorithm::library;  ///< for dense reductions, also inside `rounds`
  bool average = false;                                ///< divide a reduction by the number of ranks, once
  /// Of dense reductions; max for exact statistics. Only codec `none` without `average` may have another than sum.
  ReduceOp operation = ReduceOp::sum;
  /// With our own ring, where a codec's rounds may run on row blocks: a reduce_scatter encodes a block while the one before it travels. False:
  /// all blocks are encoded first. Equal bits and bytes.
  bool overlap_blocks = true;
  /// What this rank encoded for an all_gather or broadcast is sent again while operations of the same tensor and slice name the same
  /// step: weights, encoded once however often they are gathered between two updates. The caller names another step, or forgets, as soon
  /// as the tensor has changed. Codecs without state and without wrappers only.
  bool reuse_payloads = false;
  /// Names the channel where a rank has several for one class (the steps of a sum inside and across nodes), so that each rounds with draws of its own.
  std::uint64_t draws = 0;
  /// Keep the result of every Pass::train operation (all but reduce and send) until an operation of
  /// Pass::recompute with its key takes it.
  bool keep_for_recompute = false;
  /// Of collectives on the host, how many may be under way together whose tensors are small (at most small_bytes), besides one other: on a link of
  /// a long latency they wait for it once instead of in turn, as if they were one message. Each has memory and a duplicate of the group of its
  /// own. They begin in the order of their calls, one of a tensor only after those of the same tensor, and may end in another order; equal bits.
  /// 0: one at a time, as where a real link's token bucket is emptied before each, or a codec does not keep its rounds apart.
  int small_at_once = 0;
  /// Of a training: what codecs draw by whose expression gives no seed. All ranks name the same.
  std::optional<std::uint64_t> run_seed = {};
};

/// A pending channel operation. Operations of a channel begin, and but for ChannelOptions::small_at_once end, first in, first out.
class Operation {
 public:
  Operation() = default;
  bool valid() const { return state_ != nullptr; }
  /// True when finished; makes progress on the channel.
  bool test();
  /// Blocks until finished and returns what it cost. Advances every channel of the process meanwhile, so
  /// ranks may wait for operations of different channels in different orders.
  const OperationReport& wait();

  struct State;
  explicit Operation(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// All channels of a process are used by one thread.
class Channel {
 public:
  /// Duplicates `group`; on a device that `group` does not serve, by make_device_communicator. Throws UsageError when codec, protocol and communicator cannot go together.
  Channel(Communicator& group, ChannelOptions options);
  ~Channel();
  Channel(Channel&&) noexcept;

  // Pass::recompute: the result that the Pass::train operation of this key delivered is copied to `out` at once,
  // without communication or codec, and forgotten; the meter counts an operation of no bytes and no time.
  // UsageError naming the key where there is none (any more), or the channel does not keep_for_recompute.
  //
  // Tensors are f32 and lie where the channel was opened: on the host, or on the device of the placement (core/device/placement.h), as do payloads and
  // all scratch. An operation on a device starts after what the calling thread's stream holds, on a stream of the channel's own; wait() and
  // test() let the thread's stream go on after it, and the host waits only where it must learn that a transfer is done. Its times are
  // events that the report holds once the meter was read. A channel of codec `none` also takes tensors that are already in its wire
  // type and then converts nothing: a dense baseline is not charged for conversions. Memory stays valid until the
  // operation is done. Impossible requests throw UsageError here, on every rank alike.

  /// out = sum (or mean) over ranks of `in`. Shapes equal on all ranks; `out` may be `in`.
  Operation all_reduce(ConstTensorView in, TensorView out, const MessageKey& key);
  /// `in` [rows, columns] is split by rows into size() blocks as evenly as shard_rows says; out = my block of
  /// the sum. A codec whose rounds cannot run on row blocks (PowerSGD) reduces all and keeps the slice:
  /// report().algorithm says so.
  Operation reduce_scatter(ConstTensorView in, TensorView out, const MessageKey& key);
  /// out [rows, columns] = all ranks' blocks, split by shard_rows; the owner, too, gets its decoded block.
  Operation all_gather(ConstTensorView in, TensorView out, const MessageKey& key);
  /// Before an all_gather of `key`: all ranks hold `held` [rows, columns] from before, equal to the bit. Wrappers that send changes (EF21) begin with it, where they remember nothing
  /// of this tensor yet. No communication.
  void start_gathers_from(ConstTensorView held, const MessageKey& key);
  /// All ranks, the root included, end with the decoded tensor.
  Operation broadcast(TensorView data, int root, const MessageKey& key);
  /// As all_reduce, but only the root's `out` is written.
  Operation reduce(ConstTensorView in, TensorView out, int root, const MessageKey& key);
  /// Point to point, header-free: sizes are agreed or read from the message. Messages between two ranks
  /// arrive in order; those with no collective before them in the queue are in flight together, so both
  /// directions at once are safe. A rank sends to itself in a group of one only, and receives before it waits for that.
  Operation send(ConstTensorView in, int to, const MessageKey& key);
  Operation receive(TensorView out, int from, const MessageKey& key);
  /// The gradient of an activation that crossed this boundary through `activation` (same key): it travels as
  /// that codec's backward rule says (dense, kept elements only, or the gradient of the code), through this
  /// channel's own codec. Who received the activation sends; `gradient` and `input_gradient` have the
  /// activation's shape, f32.
  Operation send_backward(ConstTensorView gradient, int to, const MessageKey& key, Channel& activation);
  Operation receive_backward(TensorView input_gradient, int from, const MessageKey& key, Channel& activation);
  /// Backward pass of an all_reduce of activations, out = sum (or mean) over ranks of decoded(encoded(in)): from the
  /// gradient of `out`, equal on all ranks, that of this rank's own `in`. No communication; the two may be the same
  /// memory. straight_through: a copy. masked: zero but at this rank's kept positions; in the released form a copy,
  /// as in the authors' tensor-parallel code. linear_map: gradient D E, and the gradients of the weights in training.
  /// The key is that of the forward message, in any order among those that wait; protocols rounds and gather (a
  /// message of two_shot is cut and coded twice: only straight_through has a gradient there).
  void reduction_backward(ConstTensorView gradient, TensorView input_gradient, const MessageKey& key);
  /// Advances pending operations; call between instructions (MPI collectives do not progress by themselves).
  void progress();
  /// The same for every channel of the process; true while any operation is pending.
  static bool progress_all();

  /// Fits a trained codec; every rank passes equal samples.
  void fit(std::span<const ConstTensorView> samples);
  /// State of codec and wrappers on this rank, for a checkpoint between steps: loaded into a channel of the same
  /// codec, form, protocol, rank and number of ranks, everything goes on bit-equal. UsageError while operations are
  /// in flight, and for the state of another such channel (saying what differs); CorruptData for anything else.
  std::vector<std::byte> save_state() const;
  void load_state(std::span<const std::byte> state);

  /// reuse_payloads: what was encoded so far is not sent again. On all ranks alike.
  void forget_payloads();

  /// How codec work is timed. UsageError while operations are in flight. `replay` needs serial passes of the
  /// same kind of operation and shape before it; entering `serial` forgets earlier ones. measure_timed does
  /// it all.
  /// `scale`: replayed waits are this many times the measured durations, above 0.
  void set_compute(ComputeMode mode, double scale = 1);
  /// Before the first transfer after an idle gap, the rank sends an untimed message of the transfer's size
  /// (one bucket at least, two at most) to empty the link's token bucket, and waits for its partners; not counted in bytes
  /// or times. Same value on all ranks; 0 = off (default). token_bucket_bytes(link) gives the launcher's
  /// bucket.
  void empty_bucket_before_transfers(std::int64_t bucket_bytes);
  /// The same for whole programs over a link: no pause, no message to a partner (collectives/link/link_drain.h). `drain`
  /// must outlive the channel; nullptr = off (default). UsageError while operations are in flight.
  void drain_link_before_transfers(LinkDrain* drain);

  /// From now on operations cost nothing and move nothing: reductions end at once, a receive ends when its sender has come to its send.
  /// Outputs keep what they hold, nothing is metered, codecs see nothing. For timed steps that ask what a class costs. Same value on
  /// all ranks; UsageError while operations are in flight.
  void omit(bool omitted);

  Communicator& communicator();
  const ChannelOptions& options() const;
  /// Whether the library wants all ranks to make their collective calls, on all such channels, in one order (collectives/communicator/issue_order.h): then
  /// none may be made when something else is found to have ended, which is earlier on one rank and later on another.
  bool ordered() const;
  /// The protocol in use (never `automatic`).
  Protocol protocol() const;
  CodecStack& codec();
  Meter& meter();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire
