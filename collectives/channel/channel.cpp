#include "collectives/channel/channel.h"

#include <utility>

#include "collectives/channel/channel_state.h"
#include "core/tensor_names.h"
#include "kernels/codec/state.h"
#include "kernels/values.h"

namespace thinwire {
void Meter::add(const OperationReport& report) {
  last_ = report;
  total_ += report;
  ++operations_;
}

namespace {

/// What a saved state belongs to.
std::vector<std::pair<std::string, std::string>> identity(const ChannelState& c) {
  return {{"codec", c.stack.expression.canonical()},
          {"form", name_of(c.stack.form)},
          {"protocol", name_of(c.protocol)},
          {"rank", std::to_string(c.rank())},
          {"number of ranks", std::to_string(c.size())}};
}

}  // namespace

struct Channel::Impl : ChannelState {
  using ChannelState::ChannelState;
  Operation start(OperationKind kind, ConstTensorView in, TensorView out, const MessageKey& key,
                  int peer = -1, Channel* activation = nullptr) {
    auto state = std::make_shared<Operation::State>(*this, kind, in, out, key, peer);
    if (activation != nullptr) {
      state->activation_channel = activation->impl_.get();
      state->activation = activation->codec().codec.get();
    }
    check_request(*state);
    state->called();
    if (key.pass == Pass::recompute && activation == nullptr) {
      state->recall();
      return Operation(std::move(state));
    }
    enqueue(state);
    return Operation(std::move(state));
  }
};

Channel::Channel(Communicator& group, ChannelOptions options)
    : impl_(std::make_unique<Impl>(group, std::move(options))) {}

Channel::~Channel() {
  if (impl_ == nullptr || std::uncaught_exceptions() > 0) return;
  try {
    if (impl_->queue.empty()) return;
    const std::shared_ptr<Operation::State> last = impl_->queue.back();
    ChannelState::wait_for([this] { return impl_->queue.empty(); }, *last);
  } catch (const Error&) {  // whoever waits for that operation was told, or nobody cares for its result
  }
}
Channel::Channel(Channel&&) noexcept = default;

Operation Channel::all_reduce(ConstTensorView in, TensorView out, const MessageKey& key) {
  return impl_->start(OperationKind::all_reduce, in, out, key);
}
Operation Channel::reduce_scatter(ConstTensorView in, TensorView out, const MessageKey& key) {
  return impl_->start(OperationKind::reduce_scatter, in, out, key);
}
Operation Channel::all_gather(ConstTensorView in, TensorView out, const MessageKey& key) {
  return impl_->start(OperationKind::all_gather, in, out, key);
}
Operation Channel::broadcast(TensorView data, int root, const MessageKey& key) {
  return impl_->start(OperationKind::broadcast, data, data, key, root);
}
Operation Channel::reduce(ConstTensorView in, TensorView out, int root, const MessageKey& key) {
  return impl_->start(OperationKind::reduce, in, out, key, root);
}
Operation Channel::send(ConstTensorView in, int to, const MessageKey& key) {
  return impl_->start(OperationKind::send, in, {}, key, to);
}
Operation Channel::receive(TensorView out, int from, const MessageKey& key) {
  return impl_->start(OperationKind::receive, {}, out, key, from);
}
Operation Channel::send_backward(ConstTensorView gradient, int to, const MessageKey& key,
                                 Channel& activation) {
  return impl_->start(OperationKind::send, gradient, {}, key, to, &activation);
}
Operation Channel::receive_backward(TensorView input_gradient, int from, const MessageKey& key,
                                    Channel& activation) {
  return impl_->start(OperationKind::receive, {}, input_gradient, key, from, &activation);
}

void Channel::reduction_backward(ConstTensorView gradient, TensorView input_gradient, const MessageKey& key) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError("channel " + name_of(options().traffic) + " (" + impl_->stack.expression.canonical() + "): backward pass of the sum of " +
                     tensor_label(key.tensor) + " " + gradient.shape().to_string() + ": " + why);
  };
  if (gradient.dtype() != input_gradient.dtype() || gradient.elements() != input_gradient.elements())
    refuse("the two gradients differ in type or size (" + std::string(name_of(input_gradient.dtype())) + " " +
           input_gradient.shape().to_string() + ")");
  if (key.pass == Pass::evaluate) refuse("a message of an evaluation has no backward pass");
  const CodecTraits& traits = impl_->traits();
  const bool copies = traits.backward == BackwardRule::straight_through ||
                      (traits.backward == BackwardRule::masked && impl_->options.form == Form::released);
  const std::int64_t ranks = impl_->options.average ? impl_->size() : 1;
  const ConstTensorView out = input_gradient;
  for (const ConstTensorView& x : {gradient, out})
    if (x.device() != impl_->device) refuse("a gradient lies on " + name_of(x.device()) + ", the channel's tensors on " + name_of(impl_->device));
  if (copies && ranks == 1) return impl_->in_callers_order([&] { copy_values(input_gradient, gradient.reshaped(input_gradient.shape())); });
  if (gradient.dtype() != DType::f32) refuse("a codec takes f32, not " + std::string(name_of(gradient.dtype())));
  if (!copies && impl_->protocol == Protocol::two_shot)
    refuse("protocol two_shot codes a message twice, so this codec's gradient is not that of one message; use gather or rounds");
  if (gradient.elements() == 0) return;
  impl_->in_callers_order([&] {
    // Of the mean every rank's share is 1 / ranks; the rules are linear in the gradient.
    if (ranks > 1) scale_values(input_gradient, gradient, 1.0f / static_cast<float>(ranks));
    if (!copies) thinwire::reduction_backward(*impl_->stack.codec, ranks > 1 ? out : gradient, key, input_gradient);
  });
}

bool Channel::progress_all() { return ChannelState::progress_all(); }

void Channel::progress() {
  impl_->progress();
}

void Channel::fit(std::span<const ConstTensorView> samples) {
  if (auto* fitted = impl_->stack.codec->as<Fit>()) impl_->in_callers_order([&] { fitted->fit(samples); });
}

std::vector<std::byte> Channel::save_state() const {
  if (!impl_->queue.empty()) throw UsageError("save_state with operations in flight; wait for them first");
  const PlacementScope scope(impl_->where());
  StateWriter to;
  for (const auto& [name, value] : identity(*impl_)) to.put(name, value);
  to.set_scope("codec/");
  if (const auto* state = std::as_const(*impl_->stack.codec).as<State>()) state->save_state(to);
  for (std::size_t i = 0; i < impl_->stack.wrappers.size(); ++i) {
    to.set_scope("wrapper " + std::to_string(i) + "/");
    impl_->stack.wrappers[i]->save_state(to);
  }
  return to.finish();
}

void Channel::load_state(std::span<const std::byte> state) {
  if (!impl_->queue.empty()) throw UsageError("load_state with operations in flight; wait for them first");
  const PlacementScope scope(impl_->where());
  StateReader from(state);
  for (const auto& [name, value] : identity(*impl_)) {
    const std::string saved = from.take_text(name);
    if (saved == value) continue;
    throw UsageError("the saved codec state of channel " + name_of(options().traffic) + " is of " + name + " '" + saved +
                     "', this channel has '" + value + "'; continue with the same set-up, or reset the codec's state");
  }
  from.set_scope("codec/");
  if (auto* own = impl_->stack.codec->as<State>()) own->load_state(from);
  for (std::size_t i = 0; i < impl_->stack.wrappers.size(); ++i) {
    from.set_scope("wrapper " + std::to_string(i) + "/");
    impl_->stack.wrappers[i]->load_state(from);
  }
  from.check_all_taken();
}

void Channel::start_gathers_from(ConstTensorView held, const MessageKey& key) {
  ChannelState& c = *impl_;
  if (!c.wrapped()) return;
  for (int r = 0; r < c.size(); ++r) {
    const RowBlock block = shard_rows(held.shape().rows(), r, c.size());
    if (block.count == 0) continue;
    const bool own = r == c.rank();
    c.stack.start_from(rows_of(held, block), own ? key : piece_key(key, c.size(), r), own);
  }
}

void Channel::forget_payloads() {
  for (auto& [key, encoded] : impl_->encoded) encoded.step = ChannelState::Encoded().step;
}

void Channel::set_compute(ComputeMode mode, double scale) {
  if (!impl_->queue.empty()) throw UsageError("set_compute with operations in flight; wait for them first");
  if (mode != ComputeMode::real && impl_->stream != nullptr)
    throw UsageError("set_compute: timed compute puts waits of the host in the place of codec work, which on " + name_of(impl_->device) +
                     " is not the host's; a device is not shared out among its ranks' sections either. Use compute mode real");
  impl_->codec_timer.set_mode(mode);
  impl_->codec_timer.set_scale(scale);
  if (mode == ComputeMode::serial) {
    if (impl_->quiet == nullptr) impl_->quiet = std::make_unique<Waiter::Quiet>();
  } else {
    impl_->quiet.reset();
  }
}

void Channel::empty_bucket_before_transfers(std::int64_t bucket_bytes) {
  if (!impl_->queue.empty())
    throw UsageError("empty_bucket_before_transfers with operations in flight; wait for them first");
  impl_->bucket_bytes = bucket_bytes;
}

void Channel::drain_link_before_transfers(LinkDrain* drain) {
  if (!impl_->queue.empty()) throw UsageError("drain_link_before_transfers with operations in flight; wait for them first");
  impl_->drain = drain;
}

void Channel::omit(bool omitted) {
  if (!impl_->queue.empty()) throw UsageError("omit with operations in flight; wait for them first");
  impl_->omitted = omitted;
}

Communicator& Channel::communicator() {
  return *impl_->comm;
}
const ChannelOptions& Channel::options() const {
  return impl_->options;
}
bool Channel::ordered() const {
  return impl_->ordered;
}
Protocol Channel::protocol() const {
  return impl_->protocol;
}
CodecStack& Channel::codec() {
  return impl_->stack;
}
Meter& Channel::meter() {
  impl_->settle(true);
  return impl_->meter;
}

}  // namespace thinwire
