// What the operations of a channel share: which protocol and transport it takes, its queue, and its order with other channels.
#include "collectives/channel/channel_state.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "collectives/communicator/device_communicator.h"
#include "collectives/communicator/issue_order.h"
#include "core/process/trace.h"

namespace thinwire {
namespace {

bool is_pipeline(TrafficClass traffic) {
  return traffic == TrafficClass::pp_forward || traffic == TrafficClass::pp_backward;
}

/// The types of the rounds are known only to the codec; bytes carry everything but sums, and f32 stands for the types of sums.
bool can_reduce_by(const Communicator& comm, ReduceOp op) { return comm.supports(op == ReduceOp::sum ? DType::f32 : DType::u8, op); }

bool rounds_possible(const CodecTraits& traits, const Communicator& comm) {
  return traits.rounds > 0 && std::ranges::all_of(traits.operators, [&](ReduceOp op) { return can_reduce_by(comm, op); });
}

/// Of a codec whose rounds are not possible: what is missing, and what would do instead.
std::string missing_operators(const CodecStack& stack, const Communicator& comm) {
  const CodecTraits& traits = stack.codec->traits();
  const auto* const other = std::as_const(*stack.codec).as<SumsAlone>();
  const std::string by_sums = other == nullptr ? "" : other->by_sums_alone();
  std::string missing;
  for (const ReduceOp op : traits.operators)
    if (!can_reduce_by(comm, op)) missing += (missing.empty() ? "" : ", ") + std::string(op == ReduceOp::bit_or ? "bitwise or of bytes" : op == ReduceOp::max ? "maximum of bytes" : "sum of f32");
  const int ranks = comm.size();
  std::string text = "its " + std::to_string(traits.rounds) + " rounds need " + missing + ", which " + comm.transport() + " between these " + std::to_string(ranks) + " ranks does not have";
  if (!by_sums.empty()) text += "; " + by_sums + " does with sums";
  if (traits.gather)
    text += std::string(by_sums.empty() ? "; " : ", ") + "protocol gather with none, and sends each message " + std::to_string(ranks - 1) + " times instead of " + std::to_string(2 * (ranks - 1)) + "/" + std::to_string(ranks);
  return text;
}

Protocol choose_protocol(const ChannelOptions& options, const CodecStack& stack, const Communicator& comm) {
  const CodecTraits& traits = stack.codec->traits();
  const bool dense = stack.is_dense();
  const std::string codec = "codec " + stack.expression.canonical();
  if (options.traffic == TrafficClass::control && !dense) {
    throw UsageError(codec + ": control traffic (norms, loss, look-ups) is never compressed; use codec none");
  }
  const bool messages = options.protocol == Protocol::point_to_point || (options.protocol == Protocol::automatic && is_pipeline(options.traffic));
  for (const CodecExpression::Part& part : stack.expression.wrappers) {
    if (wrapper_info(part.name).point_to_point_only && !messages)
      throw UsageError(codec + ": " + part.name + " is what one sender and one receiver agree on; it is for messages between stages, not for sums and gathers over ranks");
  }
  switch (options.protocol) {
    case Protocol::automatic:
      if (is_pipeline(options.traffic)) return Protocol::point_to_point;
      if (dense) return Protocol::dense;
      if (rounds_possible(traits, comm)) return Protocol::rounds;
      if (traits.gather) return Protocol::gather;
      break;
    case Protocol::dense:
      if (!dense)
        throw UsageError(
            codec +
            " cannot use protocol dense, which sums tensors as they are; use rounds, gather or two_shot");
      return Protocol::dense;
    case Protocol::rounds:
      if (traits.rounds == 0)
        throw UsageError(codec +
                         " is not a sequence of dense reductions, so protocol rounds cannot sum it; use "
                         "gather or two_shot");
      if (!rounds_possible(traits, comm))
        throw UsageError(codec + " cannot use protocol rounds: " + missing_operators(stack, comm));
      return Protocol::rounds;
    case Protocol::gather:
    case Protocol::two_shot:
    case Protocol::point_to_point:
      if (traits.gather) return options.protocol;
      throw UsageError(codec + " has no payload of its own, so protocol " + name_of(options.protocol) +
                       " cannot carry it; use rounds");
  }
  throw UsageError(codec + " cannot be summed here: it has no payload to gather, and " + missing_operators(stack, comm));
}

}  // namespace

namespace {

// Channels that exist. Whoever waits for one operation advances all of them: else two ranks that wait for
// operations of two channels in different orders would each keep the other's rounds from going on. Used by
// one thread.
std::vector<ChannelState*>& live_channels() {
  static auto* channels = new std::vector<ChannelState*>;
  return *channels;
}

}  // namespace

namespace {

/// Over the ranks of `group`, for tensors that lie where the thread computes.
std::unique_ptr<Communicator> communicator_here(Communicator& group, const ChannelOptions& options) {
  const Device here = current_device();
  if (here.kind == DeviceKind::host) return group.host_side().duplicate();
  const bool messages = options.protocol == Protocol::point_to_point || is_pipeline(options.traffic);
  if (group.serves(here)) return messages ? group.duplicate_for_messages() : group.duplicate();
  // Our own ring adds on the host.
  const DeviceUse use = options.algorithm == DenseAlgorithm::ring ? DeviceUse::host_memory : messages ? DeviceUse::messages : DeviceUse::collectives;
  return make_device_communicator(group, here, use);
}

/// Null where a sum of messages is that of what they decode to.
JointSum* joint_sum(CodecStack& stack) {
  auto* const joint = stack.codec->as<JointSum>();
  if (joint == nullptr || !joint->sums_jointly()) return nullptr;
  if (joint != dynamic_cast<JointSum*>(stack.codec.get()))
    throw UsageError("codec " + stack.expression.canonical() + " decodes the messages of all ranks side by side, and a codec around it would see each apart; leave that out, or let the codec inside take the mean over all ranks");
  return joint;
}

}  // namespace

ChannelState::ChannelState(Communicator& group, ChannelOptions channel_options)
    : stream(device.kind == DeviceKind::host ? nullptr : std::make_unique<ChannelStream>(device)),
      comm(communicator_here(group, channel_options)),
      options(std::move(channel_options)),
      stack(make_codec(options.codec, options.form, options.run_seed)),
      ordered(dynamic_cast<const OneIssueOrder*>(comm.get()) != nullptr) {
  protocol = choose_protocol(options, stack, *comm);
  joint = joint_sum(stack);
  if (options.operation != ReduceOp::sum && (!dense() || options.average))
    throw UsageError("a channel with another reduction than sum carries dense tensors and averages nothing; use codec none");
  if (options.reuse_payloads && (traits().stateful || wrapped()))
    throw UsageError("codec " + stack.expression.canonical() + " cannot reuse payloads: every message changes what it remembers; use a codec without state and without wrappers");
  // Activations have a backward pass through the codec that carried them; nothing else does.
  const bool copies = options.form == Form::released && traits().backward == BackwardRule::masked;  // see reduction_backward
  if (auto* rule = stack.codec->as<Backward>())
    rule->remember_messages(options.traffic == TrafficClass::pp_forward || (options.traffic == TrafficClass::tp_forward && !copies));
  if (stream != nullptr && options.algorithm == DenseAlgorithm::ring && dynamic_cast<StagingCommunicator*>(comm.get()) == nullptr)
    throw UsageError("our own ring adds on the host, which " + comm->transport() + " does not reach; use the library's reductions on " + name_of(device));
  workspaces.push_back(std::make_unique<Workspace>(*comm));
  Rounds* const rounds = protocol == Protocol::rounds ? stack.codec->as<Rounds>() : nullptr;
  if (stream == nullptr && comm->size() > 1 && (rounds == nullptr || rounds->keeps_apart())) {
    for (int i = 0; i < options.small_at_once; ++i) {
      workspaces.push_back(std::make_unique<Workspace>(comm->duplicate()));
      workspaces.back()->place = i + 1;
    }
    if (workspaces.size() > 1) apart = rounds;
  }
  if (stream != nullptr) {
    [[maybe_unused]] static const bool flushes = [] {
      Trace::before_stop([] {
        for (ChannelState* channel : live_channels()) channel->settle(true);
      });
      return true;
    }();
  }
  live_channels().push_back(this);
}

ChannelState::~ChannelState() {
  std::erase(live_channels(), this);
  // Its memory may still be in use, and its stream goes first. Not while the stack unwinds: the stream may never come there.
  if (stream != nullptr && std::uncaught_exceptions() == 0) {
    try {
      stream->synchronize();
    } catch (const Error&) {  // the next call on the device says it again
    }
  }
  for (const auto& operation : unsettled) operation->forget_events();  // their owners may ask once more
}

RequestPtr ChannelState::ring_all_reduce(Workspace& work, const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op) {
  const auto start = [=, &work](const void* from, void* to) { return work.ring.all_reduce(from, to, elements, dtype, op); };
  if (stream == nullptr) return start(send, receive);
  return dynamic_cast<StagingCommunicator&>(*work.comm).all_reduce_by(send, receive, elements * static_cast<std::int64_t>(size_of(dtype)), start);
}

RequestPtr ChannelState::ring_reduce_scatter(Workspace& work, const void* send, void* receive, std::span<const std::int64_t> counts, DType dtype, ReduceOp op) {
  // `counts` are the channel's and live as long as the transfer.
  const auto start = [=, &work](const void* from, void* to) { return work.ring.reduce_scatter(from, to, counts, dtype, op); };
  if (stream == nullptr) return start(send, receive);
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  return dynamic_cast<StagingCommunicator&>(*work.comm).reduce_scatter_by(send, total * width, receive, counts[static_cast<std::size_t>(rank())] * width, start);
}

RequestPtr ChannelState::ring_all_gather(Workspace& work, const void* send, void* receive, std::span<const std::int64_t> counts, std::span<const std::int64_t> places) {
  const auto start = [=, &work](const void* from, void* to) { return work.ring.all_gather(from, to, counts); };
  if (stream == nullptr) return start(send, receive);
  return dynamic_cast<StagingCommunicator&>(*work.comm).all_gather_by(send, counts[static_cast<std::size_t>(rank())], receive, counts, places, start);
}

void ChannelState::settle(bool all) {
  Waiter waiter;
  while (!unsettled.empty()) {
    if (!unsettled.front()->end_has_come()) {
      if (!all) return;
      waiter.pause();
      continue;
    }
    const std::shared_ptr<Operation::State> operation = std::move(unsettled.front());
    unsettled.pop_front();
    operation->settle();
  }
}

bool ChannelState::progress_all() {
  bool pending = false;
  for (std::size_t i = 0; i < live_channels().size(); ++i) {
    if (live_channels()[i]->queue.empty()) continue;
    live_channels()[i]->progress();
    pending = pending || !live_channels()[i]->queue.empty();
  }
  return pending;
}

std::int64_t ChannelState::earliest_collective() {
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (const ChannelState* channel : live_channels()) {
    if (!channel->ordered) continue;
    const auto first = std::ranges::find_if(channel->queue, [](const auto& operation) { return operation->collective(); });
    if (first != channel->queue.end()) earliest = std::min(earliest, (*first)->call);
  }
  return earliest;
}

void ChannelState::enqueue(std::shared_ptr<Operation::State> operation) {
  if (stream != nullptr) settle(false);
  operation->call = ++calls;
  if (operation->collective()) {
    // By the number of calls in a step, which is the same on all ranks; so each has grown when the first step ends.
    if (std::exchange(small_step, operation->key.step) != operation->key.step) small_collectives = 0;
    const bool small = workspaces.size() > 1 && operation->whole_bytes() <= small_bytes;
    operation->work = workspaces[small ? 1 + static_cast<std::size_t>(small_collectives++) % (workspaces.size() - 1) : 0].get();
  }
  queue.push_back(std::move(operation));
  progress();
}

bool ChannelState::may_begin(std::size_t i) const {
  if (i == 0) return true;
  const Operation::State& operation = *queue[i];
  if (workspaces.size() == 1 || bucket_bytes > 0 || drain != nullptr || operation.work->used) return false;
  return std::none_of(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(i),
                      [&](const auto& before) { return !before->collective() || before->key.tensor == operation.key.tensor; });
}

// First in, first out, with two reliefs. Point-to-point messages with no collective before them may be in flight together (their codec work is
// one section each), so that two ranks may send to each other at once. So may collectives, each in a workspace of its own; they begin in order.
void ChannelState::progress() {
  for (std::size_t i = 0; i < queue.size();) {
    const std::shared_ptr<Operation::State> operation = queue[i];
    const bool collective = operation->collective();
    if (collective && !operation->begun() && !may_begin(i)) return;
    if (!collective && i > 0 && queue[i - 1]->collective()) return;
    const auto drop = [&] {
      if (collective) operation->work->used = false;
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
    };
    if (collective) operation->work->used = true;
    bool finished = false;
    try {
      finished = operation->advance();
    } catch (...) {
      drop();
      throw;
    }
    if (finished)
      drop();
    else
      ++i;
  }
}

std::unique_ptr<Buffer> ChannelState::borrow() {
  if (pool.empty()) return std::make_unique<Buffer>();
  std::unique_ptr<Buffer> buffer = std::move(pool.back());
  pool.pop_back();
  return buffer;
}

void ChannelState::give_back(std::unique_ptr<Buffer> buffer) {
  pool.push_back(std::move(buffer));
}

}  // namespace thinwire
