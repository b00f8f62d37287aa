#include <algorithm>
#include <array>

#include "collectives/channel/channel_state.h"
#include "collectives/process/rank_clock.h"
#include "collectives/process/watchdog.h"
#include "core/tensor_names.h"
#include "core/process/trace.h"

namespace thinwire {
namespace {

constexpr std::size_t traffic_classes = static_cast<std::size_t>(TrafficClass::control) + 1;

// Names of spans must outlive them.
const char* span_name(TrafficClass traffic) {
  static const auto names = [] {
    std::array<std::string, traffic_classes> all;
    for (std::size_t i = 0; i < traffic_classes; ++i) all[i] = name_of(static_cast<TrafficClass>(i));
    return all;
  }();
  return names[static_cast<std::size_t>(traffic)].c_str();
}

}  // namespace

std::string name_of(OperationKind kind) {
  const char* const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                               "reduce",     "send",           "receive"};
  return names[static_cast<std::size_t>(kind)];
}

Operation::State::State(ChannelState& channel_state, OperationKind operation, ConstTensorView input,
                        TensorView output, const MessageKey& message, int peer_rank)
    : channel(channel_state),
      kind(operation),
      in(input),
      out(output),
      key(message),
      peer(peer_rank),
      samples_(message.samples.begin(), message.samples.end()),
      tokens_(message.tokens.begin(), message.tokens.end()) {
  key.samples = samples_;
  key.tokens = tokens_;
  const bool summed = kind == OperationKind::all_reduce || kind == OperationKind::reduce || kind == OperationKind::reduce_scatter;
  // The caller's number stands above those of steps, so that group 0 draws as an only group does.
  if (summed) key.sender = mix_stream(channel.options.draws + (message.sender << 8), static_cast<std::uint64_t>(channel.rank()) + 1);
}

std::string Operation::State::describe() const {
  const Shape& shape =
      kind == OperationKind::receive || kind == OperationKind::broadcast ? out.shape() : in.shape();
  std::string text = "channel " + name_of(channel.options.traffic) + " (" +
                     channel.stack.expression.canonical() + ", " + name_of(channel.protocol) +
                     "): " + name_of(kind) + " of " + tensor_label(key.tensor) + " " + shape.to_string() +
                     ", step " + std::to_string(key.step);
  if (kind == OperationKind::send) text += ", to rank " + std::to_string(peer);
  if (kind == OperationKind::receive) text += ", from rank " + std::to_string(peer);
  return text + ", on rank " + std::to_string(channel.rank()) + " of " + std::to_string(channel.size());
}

SectionKey Operation::State::next_section() {
  idle_ = true;
  const Shape& shape = kind == OperationKind::receive || kind == OperationKind::broadcast ? out.shape() : in.shape();
  return {static_cast<int>(kind), shape.rows(), shape.columns(), key.stack, section_++};
}

void Operation::State::called() {
  if (channel.stream == nullptr) return;
  if (placement().device != channel.device)
    throw UsageError(describe() + ": the channel was opened on " + name_of(channel.device) + ", the calling thread computes on " + name_of(placement().device) +
                     "; call it in a PlacementScope of its device");
  events_ = std::make_unique<OperationEvents>(*channel.stream, channel.stream->mark(placement().stream));
}

void Operation::State::charge(CodecPhase phase, const SectionTime& time, EventPtr began) {
  if (events_ != nullptr) {  // the work was only queued: see settle()
    (phase == CodecPhase::encode ? report.encode_cpu_us : report.decode_cpu_us) += time.cpu_us;
    if (phase == CodecPhase::encode) events_->copy_status(channel.stack.codec.get(), 0);
    return events_->end(phase == CodecPhase::encode ? TraceCategory::encode : TraceCategory::decode, std::move(began));
  }
  (phase == CodecPhase::encode ? report.encode_us : report.decode_us) += time.wall_us;
  (phase == CodecPhase::encode ? report.encode_cpu_us : report.decode_cpu_us) += time.cpu_us;
  if (!Trace::on()) return;
  const std::int64_t end = RankClock::now_ns();
  Trace::add(phase == CodecPhase::encode ? TraceCategory::encode : TraceCategory::decode, span_name(channel.options.traffic),
             end - static_cast<std::int64_t>(time.wall_us * 1e3), end, -1, key.micro_batch);
}

// The link is idle before an operation's first transfer and while codec work runs.
bool Operation::State::must_empty_bucket() {
  const bool was_idle = std::exchange(idle_, false);
  return was_idle && channel.bucket_bytes > 0 && channel.size() > 1;
}

void Operation::State::empty_bucket(std::int64_t bytes) {
  using Role = EmptyBucket::Role;
  const Role role = collective()                  ? Role::exchange
                    : kind == OperationKind::send ? Role::sender
                                                  : Role::receiver;
  bucket_ = std::make_unique<EmptyBucket>(channel.host_comm(), role, peer, bytes, channel.bucket_bytes);
}

void Operation::State::begin_transfer(RequestPtr request) {
  TW_ASSERT(pending_ == nullptr, "an operation awaits one transfer at a time");
  pending_ = std::move(request);
  transfer_start_ns_ = RankClock::now_ns();
}

bool Operation::State::poll() {
  if (bucket_ != nullptr) {
    if (!bucket_->test()) return false;
    report.untimed_us += bucket_->untimed_us();
    bucket_.reset();
  }
  if (start_ != nullptr) {
    if (!my_turn()) return false;
    transfer_began_ = mark();
    begin_transfer(std::exchange(start_, nullptr)());
  }
  if (pending_ == nullptr) return true;
  if (!pending_->test()) return false;
  if (events_ != nullptr) {
    events_->end(TraceCategory::transfer, std::move(transfer_began_));
    check_status(*events_);  // the transfer had to wait for what was encoded
  } else {
    const std::int64_t end = RankClock::now_ns();
    report.transfer_us += static_cast<double>(end - transfer_start_ns_) * 1e-3;
    if (Trace::on()) Trace::add(TraceCategory::transfer, span_name(channel.options.traffic), transfer_start_ns_, end, -1, key.micro_batch);
  }
  pending_.reset();
  if (channel.drain != nullptr && collective()) channel.drain->exchange_ended();
  ++ChannelState::transfers_ended;
  return true;
}

void Operation::State::rethrow_described() const {
  try {
    throw;
  } catch (const NonFiniteData& error) {
    // What rounds give back is no payload but a sum of what ranks wrote, and none of them writes NaN or infinity.
    if (channel.protocol == Protocol::rounds) throw NotRepresentable(describe() + ": " + error.what());
    throw CorruptData(describe() + ": " + error.what());
  } catch (const CorruptData& error) {
    throw CorruptData(describe() + ": " + error.what());
  } catch (const NotRepresentable& error) {
    throw NotRepresentable(describe() + ": " + error.what());
  } catch (const RuntimeFailure& error) {
    throw RuntimeFailure(describe() + ": " + error.what());
  }
}

void Operation::State::check_status(const OperationEvents& events) {
  if (auto* half = channel.stack.codec->as<DeviceHalf>()) half->check_status(events.status(0), key);
  if (activation == nullptr) return;
  if (auto* half = activation->as<DeviceHalf>()) half->check_status(events.status(1), key);
}

bool Operation::State::advance() {
  if (done) return true;
  const PlacementScope scope(channel.where());
  try {
    if (events_ != nullptr) events_->resumed();
    if (start_ns_ == 0) {
      start_ns_ = RankClock::now_ns();
      if (events_ != nullptr) events_->begin();
      task_ = run_operation(*this);
      resume_ = task_.handle();
    }
    while (!task_.done()) {
      if (!poll()) return false;
      std::exchange(resume_, {}).resume();
    }
    task_.rethrow();
  } catch (...) {
    done = true;
    rethrow_described();
  }
  finish();
  return true;
}

// What a recomputed forward pass asks for again. A message to another rank is not sent again, and a gradient has no
// second forward pass.
bool Operation::State::keeps_result() const {
  return channel.options.keep_for_recompute && key.pass == Pass::train && activation == nullptr && kind != OperationKind::send &&
         kind != OperationKind::reduce;
}

void Operation::State::recall() {
  MessageMemory& kept = channel.kept(kind);
  const auto refuse = [&](const std::string& why) {
    throw UsageError(describe() + ", micro-batch " + std::to_string(key.micro_batch) + ": nothing to recompute: " + why);
  };
  if (!channel.options.keep_for_recompute) refuse("the channel keeps no results; open it with keep_for_recompute");
  std::span<std::byte> result;
  if (!kept.waiting(key) || !kept.find(key, result))
    refuse("the training pass of this message was not seen, or its result was taken before");
  if (result.size() != out.bytes())
    refuse("its result has " + std::to_string(result.size()) + " bytes, the output " + std::to_string(out.bytes()));
  const PlacementScope scope(channel.where());
  if (events_ != nullptr) events_->begin();
  copy_bytes(out.data(), result.data(), result.size());
  kept.release(key);
  report.algorithm = "kept result of the first pass";
  recalled_ = true;
  end();
}

void Operation::State::finish() {
  if (keeps_result()) channel.kept(kind).remember(key, {static_cast<const std::byte*>(out.data()), out.bytes()});
  report.total_us = static_cast<double>(RankClock::now_ns() - start_ns_) * 1e-3 - report.untimed_us;
  end();
}

void Operation::State::end() {
  done = true;
  if (events_ != nullptr) {
    events_->copy_status(channel.stack.codec.get(), 0);
    events_->finish();
    channel.unsettled.push_back(shared_from_this());
  } else if (!channel.omitted) {
    channel.meter.add(report);
  }
}

void Operation::State::deliver() {
  if (events_ == nullptr || !events_->finished()) return;
  channel.settle(false);  // what has failed meanwhile is said as early as it is known
  if (events_ == nullptr) return;
  if (placement().device == channel.device)
    events_->last().hold(placement().stream);
  else
    channel.stream->synchronize();
}

void Operation::State::settle() {
  const std::unique_ptr<OperationEvents> events = std::move(events_);
  const bool timed = !recalled_ && !channel.omitted;
  for (const OperationEvents::Span& span : events->spans()) {
    if (!timed) break;
    const double us = span.begin->ms_until(*span.end) * 1e3;
    (span.what == TraceCategory::transfer ? report.transfer_us : span.what == TraceCategory::encode ? report.encode_us : report.decode_us) += us;
    if (Trace::on() && span.begin != span.end)
      Trace::add(span.what, span_name(channel.options.traffic), channel.stream->time_of(*span.begin), channel.stream->time_of(*span.end), -1, key.micro_batch);
  }
  if (timed) report.total_us = events->first().ms_until(events->last()) * 1e3 - report.untimed_us;
  if (!channel.omitted) channel.meter.add(report);
  const PlacementScope scope(channel.where());
  try {
    check_status(*events);
  } catch (...) {
    rethrow_described();
  }
}

void ChannelState::wait_for(const std::function<bool()>& done, const Operation::State& waiting) {
  Watchdog::Guard guard(
      [](const void* state) { return static_cast<const Operation::State*>(state)->describe(); }, &waiting);
  Waiter waiter;
  std::int64_t ended = transfers_ended;
  for (progress_all(); !done(); progress_all()) {
    if (std::exchange(ended, transfers_ended) != transfers_ended) guard.touch();
    waiter.pause();
  }
}

bool Operation::test() {
  TW_ASSERT(state_ != nullptr, "an empty operation");
  if (!state_->done) state_->channel.progress_for_me();
  if (!state_->done) return false;
  state_->deliver();
  return true;
}

const OperationReport& Operation::wait() {
  TW_ASSERT(state_ != nullptr, "an empty operation");
  if (test()) return state_->report;
  ChannelState::wait_for([this] { return state_->done; }, *state_);
  state_->deliver();
  return state_->report;
}

}  // namespace thinwire
