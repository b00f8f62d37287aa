// Protocol `point_to_point`: one message from rank to rank. No header: both ends know codec and shape, and
// the size of a varying payload is the size of the message.
#include <utility>

#include "collectives/channel/channel_state.h"

namespace thinwire {
namespace {

constexpr int message_tag = 30000, order_tag = 30001;

/// A buffer of the channel's pool, given back when the message is done.
class Loan {
 public:
  explicit Loan(ChannelState& channel) : channel_(channel), buffer_(channel.borrow()) {}
  ~Loan() { channel_.give_back(std::move(buffer_)); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  Buffer& operator*() { return *buffer_; }

 private:
  ChannelState& channel_;
  std::unique_ptr<Buffer> buffer_;
};

/// Whether something other than the tensor itself travels: the gradient of an activation that a codec with a
/// backward rule of its own carried forward.
bool reshaped(const Operation::State& op) {
  return op.activation != nullptr && op.activation->traits().backward != BackwardRule::straight_through;
}

/// The tensor of `full` shape as it travels, in borrowed memory.
TensorView travelling(const Operation::State& op, const Shape& full, Buffer& memory) {
  const Shape shape = travel_shape(*op.activation, full);
  return {memory.as<float>(static_cast<std::size_t>(shape.elements())), DType::f32, shape, memory.device()};
}

Task send_message(Operation::State& op) {
  ChannelState& c = op.channel;
  const DType wire = c.options.comm_dtype;
  Loan buffer(c), travel(c);
  ConstTensorView x = op.in;
  if (reshaped(op)) {
    const TensorView gradient = travelling(op, op.in.shape(), *travel);
    op.compute(CodecPhase::encode, [&] { op.with_activation([&] { decode_backward(*op.activation, op.in, op.key, gradient); }); });
    x = gradient;
  }
  const void* data = x.data();
  std::int64_t bytes = x.elements() * static_cast<std::int64_t>(size_of(wire));
  if (!c.dense()) {
    const std::size_t most = x.elements() > 0 ? c.stack.codec->max_payload_bytes(x.shape()) : 0;
    (*buffer).reserve(most);
    bytes = most == 0 ? 0 : op.compute(CodecPhase::encode, [&] {
      return encode_message(c.stack, x, op.key, {(*buffer).data(), most}, c.message);
    });
    data = (*buffer).data();
  } else if (x.dtype() != wire) {
    (*buffer).reserve(static_cast<std::size_t>(bytes));
    op.compute(CodecPhase::encode, [&] { to_wire(x, (*buffer).data(), wire); });
    data = (*buffer).data();
  }
  op.report.payload_bytes = bytes;
  op.report.algorithm = "send";
  co_await op.transfer({bytes, 0}, [&] { return c.comm->send(data, bytes, op.peer, message_tag); });
}

Task receive_message(Operation::State& op) {
  ChannelState& c = op.channel;
  const DType wire = c.options.comm_dtype;
  Loan buffer(c), travel(c);
  const TensorView x = reshaped(op) ? travelling(op, op.out.shape(), *travel) : op.out;
  const bool direct = c.dense() && x.dtype() == wire;
  std::int64_t most = x.elements() * static_cast<std::int64_t>(size_of(wire));
  if (!c.dense())
    most = x.elements() > 0 ? static_cast<std::int64_t>(c.stack.codec->max_payload_bytes(x.shape())) : 0;
  if (!direct) (*buffer).reserve(static_cast<std::size_t>(most));
  void* data = direct ? x.data() : (*buffer).data();
  std::int64_t bytes = 0;
  op.report.algorithm = "receive";
  co_await op.transfer({}, [&] { return c.comm->receive(data, most, op.peer, message_tag, &bytes); });
  op.count({0, bytes});
  if (c.dense() && bytes != most) {
    throw RuntimeFailure("the message has " + std::to_string(bytes) + " bytes instead of " +
                         std::to_string(most) + "; both ends must agree on shape and wire type");
  }
  if (op.out.elements() == 0) co_return;
  if (!direct) {
    op.compute(CodecPhase::decode, [&] {
      if (c.dense()) return from_wire(data, wire, x);
      decode_message(c.stack, {(*buffer).data(), static_cast<std::size_t>(bytes)}, op.key, x);
    });
  }
  if (reshaped(op)) op.compute(CodecPhase::decode, [&] { op.with_activation([&] { encode_backward(*op.activation, x, op.key, op.out); }); });
}

}  // namespace

Task point_to_point(Operation::State& op) {
  return op.kind == OperationKind::send ? send_message(op) : receive_message(op);
}

// Stages still wait for each other: without that a breakdown would count the pipeline's bubble among the cost of its messages.
Task omitted_operation(Operation::State& op) {
  ChannelState& c = op.channel;
  if (op.kind == OperationKind::send) co_await op.transfer({}, [&] { return c.comm->signal(op.peer, order_tag); });
  if (op.kind == OperationKind::receive) co_await op.transfer({}, [&] { return c.comm->await_signal(op.peer, order_tag); });
}

}  // namespace thinwire
