#include <algorithm>
#include <cstring>

#include "collectives/channel_state.h"
#include "collectives/watchdog.h"
#include "core/tensor_names.h"

namespace thinwire {
namespace {

constexpr int drain_tag = 31001;

}  // namespace

std::string name_of(OperationKind kind) {
  const char* const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "send", "receive"};
  return names[static_cast<std::size_t>(kind)];
}

Operation::State::State(ChannelState& channel_state, OperationKind operation, ConstTensorView input, TensorView output,
                        const MessageKey& message, int peer_rank)
    : channel(channel_state), kind(operation), in(input), out(output), key(message), peer(peer_rank),
      samples_(message.samples.begin(), message.samples.end()) {
  key.samples = samples_;
}

std::string Operation::State::describe() const {
  const Shape& shape = kind == OperationKind::receive || kind == OperationKind::broadcast ? out.shape() : in.shape();
  std::string text = "channel " + name_of(channel.options.traffic) + " (" + channel.stack.expression.canonical() + ", " +
                     name_of(channel.protocol) + "): " + name_of(kind) + " of " + tensor_label(key.tensor) + " " +
                     shape.to_string() + ", step " + std::to_string(key.step);
  if (kind == OperationKind::send) text += ", to rank " + std::to_string(peer);
  if (kind == OperationKind::receive) text += ", from rank " + std::to_string(peer);
  return text + ", on rank " + std::to_string(channel.rank()) + " of " + std::to_string(channel.size());
}

SectionKey Operation::State::next_section() {
  idle_ = true;
  const std::int64_t elements = kind == OperationKind::receive || kind == OperationKind::broadcast ? out.elements() : in.elements();
  return {static_cast<int>(kind), elements, section_++};
}

void Operation::State::charge(Stage stage, const SectionTime& time) {
  (stage == Stage::encode ? report.encode_us : report.decode_us) += time.wall_us;
  (stage == Stage::encode ? report.encode_cpu_us : report.decode_cpu_us) += time.cpu_us;
}

// A token bucket that had time to fill lets its content through at memory speed. Where asked to, the rank
// empties it with an untimed message just before the timed one (docs/measuring.md).
void Operation::State::before_transfer(std::int64_t bytes) {
  const bool was_idle = std::exchange(idle_, false);
  ChannelState& c = channel;
  const int n = c.size();
  if (c.bucket_bytes == 0 || !was_idle || n == 1) return;
  const std::int64_t start = now_ns();
  if (collective()) {
    // Half-way round, so that with several ranks per host the message crosses the link. Two buckets' worth at
    // most: emptying it needs no more, and every rank must drain alike.
    const int shift = std::max(1, n / 2);
    const auto amount = std::min<std::int64_t>(std::max<std::int64_t>(bytes, 1), 2 * c.bucket_bytes);
    c.drain_out.reserve(static_cast<std::size_t>(amount));
    c.drain_in.reserve(static_cast<std::size_t>(2 * c.bucket_bytes));
    RequestPtr in_request = c.comm->receive(c.drain_in.data(), 2 * c.bucket_bytes, (c.rank() - shift + n) % n, drain_tag);
    RequestPtr out_request = c.comm->send(c.drain_out.data(), amount, (c.rank() + shift) % n, drain_tag);
    in_request->wait();
    out_request->wait();
    c.comm->barrier();
  } else if (kind == OperationKind::send) {
    const auto amount = std::min<std::int64_t>(std::max<std::int64_t>(bytes, 1), 2 * c.bucket_bytes);
    c.drain_out.reserve(static_cast<std::size_t>(amount));
    c.comm->send(c.drain_out.data(), amount, peer, drain_tag)->wait();
    std::byte acknowledgement{};
    c.comm->receive(&acknowledgement, 1, peer, drain_tag)->wait();
  } else {
    c.drain_in.reserve(static_cast<std::size_t>(2 * c.bucket_bytes));
    c.comm->receive(c.drain_in.data(), 2 * c.bucket_bytes, peer, drain_tag)->wait();
    const std::byte acknowledgement{};
    c.comm->send(&acknowledgement, 1, peer, drain_tag)->wait();
  }
  excluded_ns_ += now_ns() - start;
}

void Operation::State::begin_transfer(RequestPtr request) {
  TW_ASSERT(pending_ == nullptr, "an operation awaits one transfer at a time");
  pending_ = std::move(request);
  transfer_start_ns_ = now_ns();
}

bool Operation::State::poll() {
  if (pending_ == nullptr) return true;
  if (!pending_->test()) return false;
  report.transfer_us += static_cast<double>(now_ns() - transfer_start_ns_) * 1e-3;
  pending_.reset();
  return true;
}

bool Operation::State::advance() {
  if (done) return true;
  try {
    if (start_ns_ == 0) {
      start_ns_ = now_ns();
      task_ = run_operation(*this);
      resume_ = task_.handle();
    }
    while (!task_.done()) {
      if (!poll()) return false;
      std::exchange(resume_, {}).resume();
    }
    task_.rethrow();
  } catch (const CorruptData& error) {
    done = true;
    throw CorruptData(describe() + ": " + error.what());
  } catch (const RuntimeFailure& error) {
    done = true;
    throw RuntimeFailure(describe() + ": " + error.what());
  } catch (...) {
    done = true;
    throw;
  }
  finish();
  return true;
}

void Operation::State::finish() {
  report.total_us = static_cast<double>(now_ns() - start_ns_ - excluded_ns_) * 1e-3;
  channel.meter.add(report);
  done = true;
}

bool Operation::test() {
  TW_ASSERT(state_ != nullptr, "an empty operation");
  if (!state_->done) state_->channel.progress();
  return state_->done;
}

const OperationReport& Operation::wait() {
  TW_ASSERT(state_ != nullptr, "an empty operation");
  if (test()) return state_->report;
  const Watchdog::Guard guard([](const void* state) { return static_cast<const State*>(state)->describe(); }, state_.get());
  Waiter waiter;
  while (!test()) waiter.pause();
  return state_->report;
}

}  // namespace thinwire
