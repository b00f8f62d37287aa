// Which protocol carries an operation out, and what may be asked of a channel at all.
#include <string>

#include "collectives/channel/channel_state.h"

namespace thinwire {
namespace {

[[noreturn]] void refuse(const Operation::State& op, const std::string& why) {
  throw UsageError(op.describe() + ": " + why);
}

void check_type(const Operation::State& op, const ConstTensorView& x) {
  if (x.device() != op.channel.device)
    refuse(op, "tensors of this channel lie on " + name_of(op.channel.device) + ", this one on " + name_of(x.device()) +
                   "; copy it there, or open the channel where the tensor lies");
  const DType wire = op.channel.options.comm_dtype;
  const bool moves =
      op.kind == OperationKind::all_gather || op.kind == OperationKind::broadcast || !op.collective();
  if (!op.channel.dense() || (op.channel.protocol != Protocol::dense && !moves)) {
    // Messages may be bf16; what is summed over ranks, what wrappers of a collective change, and gradients that a codec's backward rule takes apart, are f32.
    const bool changed = op.collective() && op.channel.wrapped();
    const bool bf16 = x.dtype() == DType::bf16 && moves && !changed && op.activation == nullptr;
    if (x.dtype() != DType::f32 && !bf16)
      refuse(op, "a codec takes f32" + std::string(!moves ? " in sums" : changed ? " in collectives where a wrapper is around it" : " or bf16") +
                     ", not " + std::string(name_of(x.dtype())));
    return;
  }
  const bool narrow = wire == DType::f16 || wire == DType::bf16;
  // What is moved may be rounded on the way; sums of f64 are exact or not asked for.
  const bool converts = (x.dtype() == DType::f32 && narrow) || (x.dtype() == DType::f64 && moves && (narrow || wire == DType::f32));
  if (x.dtype() != wire && !converts) {
    refuse(op, "a tensor of " + std::string(name_of(x.dtype())) + " cannot travel as " +
                   std::string(name_of(wire)) +
                   "; give f32 for wire types f16 and bf16 (f64 where nothing is summed), or a tensor in the wire type");
  }
}

void check_shapes(const Operation::State& op, const Shape& in, const Shape& out) {
  if (in.rows() != out.rows() || in.columns() != out.columns()) {
    refuse(op, "output " + out.to_string() + " does not fit; it must hold [" + std::to_string(in.rows()) +
                   ", " + std::to_string(in.columns()) + "]");
  }
}

Shape block_shape(const Operation::State& op, const Shape& whole) {
  return {shard_rows(whole.rows(), op.channel.rank(), op.channel.size()).count, whole.columns()};
}

}  // namespace

void check_request(const Operation::State& op) {
  const int n = op.channel.size();
  if (op.activation_channel != nullptr && op.activation_channel->device != op.channel.device)
    refuse(op, "its activation crossed on " + name_of(op.activation_channel->device) + ", this channel works on " + name_of(op.channel.device) +
                   "; open both channels of a boundary where its tensors lie");
  if (op.collective() && op.channel.protocol == Protocol::point_to_point) {
    refuse(op, "a point-to-point channel only sends and receives; open another channel for collectives");
  }
  const bool has_root = op.kind == OperationKind::broadcast || op.kind == OperationKind::reduce;
  if ((has_root || !op.collective()) && (op.peer < 0 || op.peer >= n)) {
    refuse(op, "rank " + std::to_string(op.peer) + " does not exist");
  }
  // A group of one is a rank that stands for all stages of a pipeline (models/parallel/pipeline/local_boundaries.h).
  if (!op.collective() && op.peer == op.channel.rank() && n > 1) refuse(op, "a rank does not send to itself");
  if (!op.collective() && !op.channel.dense() && !op.channel.traits().gather) {
    refuse(op, "this codec has no payload of its own, only rounds");
  }
  if (op.kind != OperationKind::receive) check_type(op, op.in);
  const bool writes =
      op.kind != OperationKind::send && !(op.kind == OperationKind::reduce && op.peer != op.channel.rank());
  if (writes) check_type(op, op.out);
  if (writes && op.kind != OperationKind::receive && op.in.dtype() != op.out.dtype()) {
    refuse(op, "input is " + std::string(name_of(op.in.dtype())) + " but output is " +
                   std::string(name_of(op.out.dtype())));
  }
  switch (op.kind) {
    case OperationKind::all_reduce:
      return check_shapes(op, op.in.shape(), op.out.shape());
    case OperationKind::reduce:
      if (writes) check_shapes(op, op.in.shape(), op.out.shape());
      return;
    case OperationKind::reduce_scatter:
      return check_shapes(op, block_shape(op, op.in.shape()), op.out.shape());
    case OperationKind::all_gather:
      return check_shapes(op, block_shape(op, op.out.shape()), op.in.shape());
    case OperationKind::broadcast:
    case OperationKind::send:
    case OperationKind::receive:
      return;
  }
}

Task run_operation(Operation::State& op) {
  const ChannelState& c = op.channel;
  // The tensor as a whole: what the nccl-tests convention counts.
  const bool by_output = op.kind == OperationKind::all_gather || op.kind == OperationKind::receive;
  op.report.dense_bytes =
      (by_output ? op.out.elements() : op.in.elements()) * static_cast<std::int64_t>(size_of(c.options.comm_dtype));
  if (c.omitted) return omitted_operation(op);
  if (!op.collective()) return point_to_point(op);
  const bool moves = op.kind == OperationKind::all_gather || op.kind == OperationKind::broadcast;
  if (c.dense() && (moves || c.protocol == Protocol::dense))
    return moves ? dense_movement(op) : dense_reduction(op);
  if (moves && !c.traits().gather) refuse(op, "this codec has no payload of its own, only rounds");
  if (op.kind == OperationKind::all_gather) return coded_all_gather(op);
  if (op.kind == OperationKind::broadcast) return coded_broadcast(op);
  if (c.protocol == Protocol::rounds) {
    const bool by_shard = op.kind == OperationKind::reduce_scatter && c.traits().rounds_per_shard;
    if (!by_shard) return rounds_all_reduce(op);
    const bool overlaps = c.options.overlap_blocks && c.options.algorithm == DenseAlgorithm::ring && c.stream == nullptr;
    return overlaps ? overlapped_reduce_scatter(op) : rounds_reduce_scatter(op);
  }
  if (op.kind == OperationKind::reduce) return gather_reduce(op);
  if (op.kind == OperationKind::reduce_scatter) return gather_reduce_scatter(op);
  return c.protocol == Protocol::two_shot ? two_shot_all_reduce(op) : gather_all_reduce(op);
}

}  // namespace thinwire
