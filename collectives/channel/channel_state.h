// What the operations of a channel share, and one operation as the protocols see it. Internal to this floor.
#pragma once

#include <array>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/channel/channel.h"
#include "collectives/channel/channel_stream.h"
#include "collectives/communicator/cost_terms.h"
#include "collectives/link/empty_bucket.h"
#include "collectives/link/link_drain.h"
#include "collectives/process/waiter.h"
#include "collectives/communicator/ring.h"
#include "collectives/channel/codec_timer.h"
#include "collectives/communicator/staging_communicator.h"
#include "collectives/channel/task.h"
#include "kernels/codec/joint_sum.h"
#include "kernels/codec/message.h"
#include "kernels/codec/message_memory.h"

namespace thinwire {

enum class OperationKind { all_reduce, reduce_scatter, all_gather, broadcast, reduce, send, receive };
inline constexpr std::size_t operation_kinds = 7;
std::string name_of(OperationKind kind);

enum class CodecPhase { encode, decode };

/// What a collective works with while it is under way, one at a time. Buffers grow only.
struct Workspace {
  explicit Workspace(Communicator& group) : comm(&group), ring(group.host_side()) {}
  explicit Workspace(std::unique_ptr<Communicator> group) : own(std::move(group)), comm(own.get()), ring(comm->host_side()) {}

  std::unique_ptr<Communicator> own;  ///< null: the channel's
  Communicator* comm;
  Ring ring;
  Buffer wire_in, wire_out, payload, received;
  Tensor local, own_decoded, mean, sum;
  std::vector<std::int64_t> sizes, offsets, peer_sizes;
  std::vector<std::span<const std::byte>> to_add;  ///< payloads of all ranks, for add_up
  int place = 0;      ///< of the codec's (Rounds::use_place)
  bool used = false;  ///< by a collective that is under way

  Communicator& host_comm() { return comm->host_side(); }  ///< for sizes and other words of the host
};

/// Shared by the operations of one channel. Point-to-point messages in flight borrow buffers from the pool, which grow only.
struct ChannelState {
  ChannelState(Communicator& group, ChannelOptions channel_options);
  ~ChannelState();
  ChannelState(const ChannelState&) = delete;
  ChannelState& operator=(const ChannelState&) = delete;

  const Device device = current_device();  ///< of tensors, payloads and all scratch
  std::unique_ptr<ChannelStream> stream;   ///< of a channel on a device
  std::unique_ptr<Communicator> comm;      ///< serves `device`
  ChannelOptions options;
  Protocol protocol = Protocol::dense;
  CodecStack stack;
  JointSum* joint = nullptr;  ///< of the codec, where it decodes the messages of all ranks side by side
  Meter meter;
  CodecTimer codec_timer;
  std::unique_ptr<Waiter::Quiet> quiet;  ///< while sections run serially
  std::int64_t bucket_bytes = 0;         ///< emptied before a timed transfer; 0 = off
  bool omitted = false;                  ///< operations cost and move nothing
  LinkDrain* drain = nullptr;            ///< spends the bucket before a transfer; nullptr = off
  const bool ordered;                    ///< collectives start in the order of their calls, over all such channels (issue_order.h)

  /// Results of training operations, by kind, for their recomputation.
  std::array<MessageMemory, operation_kinds> kept_results;
  MessageMemory& kept(OperationKind kind) { return kept_results[static_cast<std::size_t>(kind)]; }

  /// Payloads that may be sent again, by state key, and the step that they belong to.
  struct Encoded {
    std::int64_t step = std::numeric_limits<std::int64_t>::min(), bytes = 0;
    Buffer payload;
  };
  std::map<std::uint64_t, Encoded> encoded;

  /// The first is that of large tensors, and of all where one collective is under way at a time. They outlive what is queued.
  std::vector<std::unique_ptr<Workspace>> workspaces;
  std::int64_t small_step = std::numeric_limits<std::int64_t>::min();  ///< of the latest collective
  std::int64_t small_collectives = 0;                                  ///< that were enqueued in that step
  Rounds* apart = nullptr;  ///< the codec, where it keeps the rounds of the workspaces' messages apart; null where it need not

  std::deque<std::shared_ptr<Operation::State>> queue;
  /// On a device: operations that are done but whose times are not known yet, in the order of their end.
  std::deque<std::shared_ptr<Operation::State>> unsettled;
  std::vector<std::unique_ptr<Buffer>> pool;

  MessageScratch message;  ///< of a point-to-point message while it is encoded
  /// Sizes of the blocks' rounds in the latest rounds_reduce_scatter of a tensor of so many rows and
  /// columns, for its replay.
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> round_sizes;

  int size() const { return comm->size(); }
  int rank() const { return comm->rank(); }
  Communicator& host_comm() { return comm->host_side(); }  ///< for sizes and other words of the host
  bool wrapped() const { return !stack.wrappers.empty(); }
  bool dense() const { return stack.is_dense(); }
  const CodecTraits& traits() const { return stack.codec->traits(); }

  /// Where the channel computes: its stream, or the host (whatever the caller computes on).
  Placement where() const { return stream != nullptr ? stream->where() : Placement{}; }
  /// Runs `body` between what the caller has queued and what it will queue.
  template <typename Body>
  void in_callers_order(Body&& body) {
    if (stream != nullptr) stream->follow_caller();
    {
      const PlacementScope scope(where());
      body();
    }
    if (stream != nullptr) stream->lead_caller();
  }
  /// The channel's own ring, wherever the tensors lie.
  RequestPtr ring_all_reduce(Workspace& work, const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op);
  RequestPtr ring_reduce_scatter(Workspace& work, const void* send, void* receive, std::span<const std::int64_t> counts, DType dtype, ReduceOp op);
  RequestPtr ring_all_gather(Workspace& work, const void* send, void* receive, std::span<const std::int64_t> counts, std::span<const std::int64_t> offsets);
  /// Meters operations on a device whose end has come; `all`: waits for the rest.
  void settle(bool all);

  void enqueue(std::shared_ptr<Operation::State> operation);
  /// Whether operation `i` of the queue, a collective, may be under way beside those before it.
  bool may_begin(std::size_t i) const;
  /// Advances every operation that may run; throws what an operation throws.
  void progress();
  /// progress() of every channel of this process.
  static bool progress_all();
  /// progress() of all that may keep an operation of this channel from going on.
  void progress_for_me() { ordered ? static_cast<void>(progress_all()) : progress(); }
  /// Number of the earliest collective under way on any ordered channel; that of no call where there is none.
  static std::int64_t earliest_collective();
  /// Advances all channels until done(); the watchdog names `waiting` if nothing ends for too long.
  static void wait_for(const std::function<bool()>& done, const Operation::State& waiting);
  /// Transfers that have ended on this process: what tells a slow link from a hang.
  static inline std::int64_t transfers_ended = 0;
  static inline std::int64_t calls = 0;  ///< operations that were enqueued on this process
  std::unique_ptr<Buffer> borrow();
  void give_back(std::unique_ptr<Buffer> buffer);
};

/// One operation. Protocols are coroutines over it: compute(...) sections and co_await transfer(...) in turn.
struct Operation::State : std::enable_shared_from_this<Operation::State> {
  State(ChannelState& channel_state, OperationKind operation, ConstTensorView input, TensorView output,
        const MessageKey& message, int peer_rank = -1);

  ChannelState& channel;
  Workspace* work = nullptr;  ///< of a collective
  const OperationKind kind;
  const ConstTensorView in;
  const TensorView out;
  MessageKey key;
  const int peer;               ///< root, source or destination
  ChannelState* activation_channel = nullptr;  ///< a gradient's message: the channel that carried the activation forward,
  Codec* activation = nullptr;                 ///< and its codec
  OperationReport report;
  bool done = false;
  std::int64_t call = 0;  ///< its number among all operations of the process

  bool begun() const { return start_ns_ != 0; }
  /// Of the whole tensor, the same on all ranks.
  std::int64_t whole_bytes() const { return static_cast<std::int64_t>(std::max(in.bytes(), out.bytes())); }
  bool collective() const { return kind != OperationKind::send && kind != OperationKind::receive; }
  /// "channel tp_forward (topk, gather): all_reduce of tensor 'x' [4, 8], step 3, rank 1 of 4"
  std::string describe() const;
  /// Runs until the next wait; true when finished.
  bool advance();
  /// Whoever computes next where the thread computes sees the result.
  void deliver();
  /// On a device: notes where the caller's stream is.
  void called();
  bool end_has_come() const { return events_->last().finished(); }
  /// When it has: times from events.
  void settle();
  void forget_events() { events_.reset(); }
  /// Pass::recompute: finishes at once with the result that was kept.
  void recall();

  // ---- for protocols ----

  /// A compute section: `body` returns a size or nothing. Charged to `phase`.
  template <typename Body>
  std::int64_t compute(CodecPhase phase, Body&& body) {
    std::int64_t value = 0;
    const EventPtr began = mark();
    charge(phase, channel.codec_timer.run(next_section(), value, [&] {
      use_place();
      return body();
    }), began);
    return value;
  }
  /// A compute section that yields the buffers of a dense reduction. The result is valid until the next one.
  template <typename Body>
  Round compute_round(Body&& body) {
    const SectionKey key_of_section = next_section();
    std::int64_t unused = 0;
    Round round;
    const EventPtr began = mark();
    charge(CodecPhase::encode, channel.codec_timer.run(key_of_section, unused, [&] {
      use_place();
      round = body();
    }), began);
    if (channel.codec_timer.mode() == ComputeMode::serial)
      channel.codec_timer.remember_round(key_of_section, round);
    if (channel.codec_timer.mode() == ComputeMode::replay) {
      round = channel.codec_timer.remembered_round(key_of_section);
      work->wire_out.reserve(round.receive.size());  // another collective may be replaying the same section
      round.receive = {work->wire_out.data(), round.receive.size()};
    }
    return round;
  }
  /// `start` begins a transfer and returns its request; `link` is what it costs this rank. Awaiting finishes
  /// it, so what `start` refers to must live as long as the co_await expression.
  struct Arrival {
    State& operation;
    bool await_ready() { return operation.poll(); }
    void await_suspend(std::coroutine_handle<> h) { operation.resume_ = h; }
    void await_resume() noexcept {}
  };
  template <typename Start>
  Arrival transfer(LinkBytes link, Start&& start) {
    count(link);
    if (channel.drain != nullptr && !channel.omitted) channel.drain->before_transfer(link.sent);
    if (must_empty_bucket()) empty_bucket(link.sent);
    if (bucket_ != nullptr || !my_turn()) {
      start_ = std::forward<Start>(start);
    } else {
      transfer_began_ = mark();
      begin_transfer(start());
    }
    return Arrival{*this};
  }
  // Messages that travel while the operation goes on computing, on the host. No await may come between them but these.
  /// Before the first of them, of `bytes`: empties the link's token bucket.
  Arrival link_ready(std::int64_t bytes) {
    if (must_empty_bucket()) empty_bucket(bytes);
    return Arrival{*this};
  }
  /// Begins one, of which this rank sends `bytes` (0: it receives).
  template <typename Start>
  RequestPtr set_out(std::int64_t bytes, Start&& start) {
    TW_ASSERT(events_ == nullptr, "messages that travel beside codec work are the host's");
    if (channel.drain != nullptr) channel.drain->before_transfer(bytes);
    return start();
  }
  /// Its end, or none's. What is awaited here, and nothing else, is the report's transfer_us.
  Arrival land(RequestPtr message) {
    if (message != nullptr && !message->test()) begin_transfer(std::move(message));
    return Arrival{*this};
  }
  /// Runs `body`, which works with the activation's codec: on a device neither channel's stream overtakes the other there.
  template <typename Body>
  void with_activation(Body&& body) {
    ChannelStream* other = activation_channel->stream.get();
    if (other != nullptr) other->lead(channel.stream->where().stream);
    body();
    if (other == nullptr) return;
    events_->copy_status(activation, 1);
    channel.stream->lead(other->where().stream);
  }
  /// A section that another operation of this kind would run here: those that follow keep their numbers.
  void skip_section() { (void)next_section(); }
  void count(LinkBytes link) {
    report.link_bytes += link.sent;
    report.received_bytes += link.received;
  }

 private:
  friend struct ChannelState;
  SectionKey next_section();
  /// What follows on the codec is about this operation's message.
  void use_place() {
    if (work != nullptr && channel.apart != nullptr) channel.apart->use_place(work->place);
  }
  EventPtr mark() const { return events_ != nullptr ? events_->mark() : nullptr; }
  void charge(CodecPhase phase, const SectionTime& time, EventPtr began);
  /// Throws what the device has reported of this operation by now.
  void check_status(const OperationEvents& events);
  /// The exception under way, with the operation's description in front of it where it is about data.
  [[noreturn]] void rethrow_described() const;
  bool must_empty_bucket();
  void empty_bucket(std::int64_t bytes);
  bool my_turn() const { return !channel.ordered || !collective() || ChannelState::earliest_collective() == call; }
  void begin_transfer(RequestPtr request);
  bool poll();
  void finish();
  void end();
  bool keeps_result() const;

  std::vector<std::int64_t> samples_;  // what key.samples and key.tokens are of
  std::vector<std::int32_t> tokens_;
  Task task_;
  std::coroutine_handle<> resume_;
  std::unique_ptr<EmptyBucket> bucket_;  ///< being emptied
  std::function<RequestPtr()> start_;    ///< of the transfer that begins when it may
  RequestPtr pending_;
  int section_ = 0;
  bool recalled_ = false;
  bool idle_ = true;  ///< the link had nothing to do since the last transfer
  std::int64_t start_ns_ = 0, transfer_start_ns_ = 0;
  EventPtr transfer_began_;
  std::unique_ptr<OperationEvents> events_;  ///< on a device, until it is settled
};

/// Throws UsageError for what a channel cannot do: types, shapes, ranks.
void check_request(const Operation::State& operation);
/// The protocols: which coroutine carries an operation out.
Task run_operation(Operation::State& operation);

Task dense_reduction(Operation::State& op);    ///< all_reduce, reduce_scatter, reduce
Task dense_movement(Operation::State& op);     ///< all_gather, broadcast
Task rounds_all_reduce(Operation::State& op);  ///< all_reduce, reduce; and reduce_scatter that keeps a slice
Task rounds_reduce_scatter(Operation::State& op);
Task overlapped_reduce_scatter(Operation::State& op);  ///< the same, block by block
Task gather_all_reduce(Operation::State& op);
Task gather_reduce_scatter(Operation::State& op);
Task gather_reduce(Operation::State& op);
Task two_shot_all_reduce(Operation::State& op);
Task coded_all_gather(Operation::State& op);
Task coded_broadcast(Operation::State& op);
Task point_to_point(Operation::State& op);  ///< send, receive; dense or coded
Task omitted_operation(Operation::State& op);  ///< any, of a channel whose operations cost nothing

// ---- pieces that several protocols share ----

/// Row block of a tensor seen as a matrix.
ConstTensorView rows_of(ConstTensorView x, const RowBlock& block);
TensorView rows_of(TensorView x, const RowBlock& block);
/// Key of piece i of a message (0 <= i < 2 n): states of pieces do not mix.
MessageKey piece_key(const Operation::State& op, int i);
MessageKey piece_key(const MessageKey& key, int world, int i);
/// The input as the codec shall see it: a private copy that went through before_encode when there are
/// wrappers.
ConstTensorView local_input(Operation::State& op);
/// Whether a hook after the reduction wants this rank's own decoded message.
bool wants_own_decoded(const Operation::State& op);
/// Hooks after a reduction whose sum (or mean, if the channel averages) lies in `reduced`; empty view: not on
/// this rank.
void after_reduce(Operation::State& op, ConstTensorView local, ConstTensorView own, ConstTensorView reduced);
/// Divides an f32 reduction by the number of ranks where the channel averages.
void average(Operation::State& op, TensorView sum);
/// sum = what the payloads of all ranks, in their order, decode to, added up: by the codec itself where it sums jointly.
void add_up(ChannelState& channel, std::span<const std::span<const std::byte>> payloads, const MessageKey& key, TensorView sum);
/// Byte offsets, 64-byte aligned, for blocks of these sizes; returns the total.
std::int64_t aligned_offsets(std::span<const std::int64_t> sizes, std::vector<std::int64_t>& offsets);
/// Sizes of all ranks' payloads of `bytes`: known for fixed-size codecs (`fixed`), else exchanged. Into
/// the workspace's sizes.
Task exchange_sizes(Operation::State& op, std::int64_t bytes, bool fixed);
/// A dense reduction over ranks by the channel's algorithm, counted; all ranks get the result.
Operation::State::Arrival reduce_over_ranks(Operation::State& op, const void* send, void* receive,
                                            std::int64_t elements, DType dtype, ReduceOp reduce_op);
/// Converts f32 to the wire type or back (f32 wire: copies).
void to_wire(ConstTensorView from, void* to, DType wire);
void from_wire(const void* from, DType wire, TensorView to);

}  // namespace thinwire
