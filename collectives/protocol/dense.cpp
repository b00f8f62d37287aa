// Protocol `dense`: tensors travel as they are, in the wire type. Conversions from f32 are charged as encode
// and decode; a tensor that is already in the wire type travels straight from and to the caller's memory.
#include "collectives/channel/channel_state.h"
#include "kernels/values.h"

namespace thinwire {
namespace {

/// The input in the wire type: the caller's memory, or converted into scratch.
const void* wire_input(Operation::State& op, ConstTensorView in) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  if (in.dtype() == c.options.comm_dtype) return in.data();
  w.wire_in.reserve(static_cast<std::size_t>(in.elements()) * size_of(c.options.comm_dtype));
  op.compute(CodecPhase::encode, [&] { to_wire(in, w.wire_in.data(), c.options.comm_dtype); });
  return w.wire_in.data();
}

/// Where the result arrives. A replayed operation in place must not reduce its own result again and again.
void* wire_output(Operation::State& op, TensorView out, const void* send) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  const bool would_compound = send == out.data() && c.codec_timer.mode() == ComputeMode::replay;
  if (out.dtype() == c.options.comm_dtype && !would_compound) return out.data();
  w.wire_out.reserve(static_cast<std::size_t>(out.elements()) * size_of(c.options.comm_dtype));
  return w.wire_out.data();
}

void average_wire(Operation::State& op, TensorView sum) {
  const float factor = 1.0f / static_cast<float>(op.channel.size());
  switch (sum.dtype()) {
    case DType::f32:
      return scale_values(sum, sum, factor);
    case DType::f16:
    case DType::bf16: {
      Tensor& wide = op.work->mean;
      wide.reshape(sum.shape());
      from_wire(sum.data(), sum.dtype(), wide.view());
      scale_values(wide.view(), wide.view(), factor);
      return to_wire(wide.view(), sum.data(), sum.dtype());
    }
    case DType::f64:
      if (!placement().on_host()) throw UsageError("a channel cannot average f64 on " + name_of(placement().device) + "; sum it, or use f32");
      for (double& value : sum.as<double>()) value /= op.channel.size();
      return;
    default:
      throw UsageError("a channel cannot average " + std::string(name_of(sum.dtype())) +
                       "; sum it, or use a floating type");
  }
}

void deliver_reduction(Operation::State& op, const void* arrived, TensorView out) {
  const DType wire = op.channel.options.comm_dtype;
  const bool averages = op.channel.options.average && op.channel.size() > 1;
  if (out.dtype() == wire && !averages) return;
  op.compute(CodecPhase::decode, [&] {
    if (out.dtype() != wire) from_wire(arrived, wire, out);
    if (averages) average_wire(op, out);
  });
}

}  // namespace

Task dense_reduction(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  const DType wire = c.options.comm_dtype;
  const auto size = static_cast<std::int64_t>(size_of(wire));
  const bool ring = c.options.algorithm == DenseAlgorithm::ring;
  op.report.payload_bytes = op.report.dense_bytes;
  const void* send = wire_input(op, op.in);
  if (op.kind == OperationKind::all_reduce) {
    void* receive = wire_output(op, op.out, send);
    co_await reduce_over_ranks(op, send, receive, op.in.elements(), wire, c.options.operation);
    deliver_reduction(op, receive, op.out);
  } else if (op.kind == OperationKind::reduce_scatter) {
    void* receive = wire_output(op, op.out, send);
    const std::int64_t columns = op.in.shape().columns();
    w.sizes = shard_counts(op.in.shape().rows(), c.size(), columns);
    const LinkBytes link =
        ring_reduce_scatter_bytes(shard_counts(op.in.shape().rows(), c.size(), columns * size), c.rank());
    op.report.algorithm = ring ? "ring reduce_scatter" : "library reduce_scatter (counted as ring)";
    co_await op.transfer(link, [&] {
      return ring ? c.ring_reduce_scatter(w, send, receive, w.sizes, wire, c.options.operation)
                  : w.comm->reduce_scatter_v(send, receive, w.sizes, wire, c.options.operation);
    });
    deliver_reduction(op, receive, op.out);
  } else {
    const bool root = op.peer == c.rank();
    // MPI_Ireduce must not alias: a root in place receives into scratch.
    const bool staged = root && send == op.out.data();
    if (staged) w.wire_out.reserve(op.out.bytes());
    void* receive = !root ? nullptr : staged ? w.wire_out.data() : wire_output(op, op.out, send);
    op.report.algorithm = "library reduce (counted as chain)";
    co_await op.transfer(chain_reduce_bytes(op.report.dense_bytes, c.rank(), c.size(), op.peer), [&] {
      return w.comm->reduce(send, receive, op.in.elements(), wire, c.options.operation, op.peer);
    });
    if (staged) op.compute(CodecPhase::decode, [&] { copy_bytes(op.out.data(), receive, op.out.bytes()); });
    if (root) deliver_reduction(op, receive, op.out);
  }
}

Task dense_movement(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  const DType wire = c.options.comm_dtype;
  const auto size = static_cast<std::int64_t>(size_of(wire));
  if (op.kind == OperationKind::broadcast) {
    const bool root = op.peer == c.rank();
    const bool converts = op.out.dtype() != wire;
    if (root) op.report.payload_bytes = op.report.dense_bytes;
    void* data = op.out.data();
    if (converts) {
      w.wire_out.reserve(static_cast<std::size_t>(op.report.dense_bytes));
      data = w.wire_out.data();
      if (root) op.compute(CodecPhase::encode, [&] { to_wire(op.in, data, wire); });
    }
    op.report.algorithm = "library broadcast (counted as chain)";
    co_await op.transfer(chain_broadcast_bytes(op.report.dense_bytes, c.rank(), c.size(), op.peer),
                         [&] { return w.comm->broadcast(data, op.report.dense_bytes, op.peer); });
    if (converts) op.compute(CodecPhase::decode, [&] { from_wire(data, wire, op.out); });
    co_return;
  }
  const bool ring = c.options.algorithm == DenseAlgorithm::ring;
  op.report.payload_bytes = op.in.elements() * size;
  const void* send = wire_input(op, op.in);
  void* receive = wire_output(op, op.out, nullptr);
  w.sizes = shard_counts(op.out.shape().rows(), c.size(), op.out.shape().columns() * size);
  w.offsets.assign(w.sizes.size(), 0);
  for (std::size_t r = 1; r < w.sizes.size(); ++r) w.offsets[r] = w.offsets[r - 1] + w.sizes[r - 1];
  op.report.algorithm = ring ? "ring all_gather" : "library all_gather (counted as ring)";
  co_await op.transfer(ring_all_gather_bytes(w.sizes, c.rank()), [&] {
    return ring ? c.ring_all_gather(w, send, receive, w.sizes, w.offsets)
                : w.comm->all_gather_v(send, op.report.payload_bytes, receive, w.sizes, w.offsets);
  });
  if (op.out.dtype() != wire) op.compute(CodecPhase::decode, [&] { from_wire(receive, wire, op.out); });
}

}  // namespace thinwire
