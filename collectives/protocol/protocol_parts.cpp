// Pieces that several protocols share.
#include <algorithm>

#include "collectives/channel/channel_state.h"
#include "kernels/values.h"

namespace thinwire {

ConstTensorView rows_of(ConstTensorView x, const RowBlock& block) {
  const std::int64_t columns = x.shape().columns();
  return x.flat_slice(block.first * columns, block.count * columns).reshaped({block.count, columns});
}

TensorView rows_of(TensorView x, const RowBlock& block) {
  const std::int64_t columns = x.shape().columns();
  return x.flat_slice(block.first * columns, block.count * columns).reshaped({block.count, columns});
}

MessageKey piece_key(const MessageKey& key, int world, int i) { return key.with_slice(key.slice * 2 * world + i); }
MessageKey piece_key(const Operation::State& op, int i) { return piece_key(op.key, op.channel.size(), i); }

ConstTensorView local_input(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  if (!c.wrapped()) return op.in;
  w.local.reshape(op.in.shape());
  op.compute(CodecPhase::encode, [&] {
    copy_values(w.local.view(), op.in);
    c.stack.before_encode(w.local.view(), op.key);
  });
  return std::as_const(w.local).view();
}

bool wants_own_decoded(const Operation::State& op) {
  const ChannelState& channel = op.channel;
  // A payload has a decoded form of its own, whatever the codec's rounds have.
  const bool has_one = channel.protocol != Protocol::rounds || channel.stack.codec->feedback(op.in.shape(), op.key) == FeedbackSource::own_decoded;
  return has_one &&
         std::any_of(channel.stack.wrappers.begin(), channel.stack.wrappers.end(),
                     [](const auto& wrapper) { return wrapper->needs_own_decoded(); });
}

void after_reduce(Operation::State& op, ConstTensorView local, ConstTensorView own, ConstTensorView reduced) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  if (!c.wrapped()) return;
  op.compute(CodecPhase::decode, [&] {
    if (!c.options.average && reduced.elements() > 0) {
      w.mean.reshape(reduced.shape());
      scale_values(w.mean.view(), reduced, 1.0f / static_cast<float>(c.size()));
      reduced = std::as_const(w.mean).view();
    }
    c.stack.after_reduce(local, own, reduced, op.key);
  });
}

void average(Operation::State& op, TensorView sum) {
  if (!op.channel.options.average || op.channel.size() == 1) return;
  scale_values(sum, sum, 1.0f / static_cast<float>(op.channel.size()));
}

void add_up(ChannelState& c, std::span<const std::span<const std::byte>> payloads, const MessageKey& key, TensorView sum) {
  if (c.joint != nullptr) return c.joint->decode_together(payloads, key, sum);
  Codec& codec = *c.stack.codec;
  codec.decode(payloads[0], key, sum);
  for (const std::span<const std::byte> payload : payloads.subspan(1)) codec.decode_add(payload, key, sum);
}

std::int64_t aligned_offsets(std::span<const std::int64_t> sizes, std::vector<std::int64_t>& offsets) {
  constexpr std::int64_t alignment = 64;
  offsets.resize(sizes.size());
  std::int64_t end = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    offsets[i] = end;
    end += (sizes[i] + alignment - 1) / alignment * alignment;
  }
  return end;
}

Task exchange_sizes(Operation::State& op, std::int64_t bytes, bool fixed) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  const int n = c.size();
  w.sizes.assign(static_cast<std::size_t>(n), bytes);
  if (fixed || n == 1) co_return;
  w.sizes[static_cast<std::size_t>(c.rank())] = bytes;
  w.peer_sizes.assign(1, bytes);
  const std::vector<std::int64_t> words(static_cast<std::size_t>(n), sizeof(std::int64_t));
  co_await op.transfer(ring_all_gather_bytes(words, c.rank()), [&] {
    return w.host_comm().all_gather(w.peer_sizes.data(), sizeof(std::int64_t), w.sizes.data());
  });
}

Operation::State::Arrival reduce_over_ranks(Operation::State& op, const void* send, void* receive,
                                            std::int64_t elements, DType dtype, ReduceOp reduce_op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  const bool ring = c.options.algorithm == DenseAlgorithm::ring;
  op.report.algorithm = ring ? "ring all_reduce" : "library all_reduce (counted as ring)";
  const LinkBytes link =
      ring_all_reduce_bytes(elements, static_cast<std::int64_t>(size_of(dtype)), c.rank(), c.size());
  // By value: the transfer may begin after this function has returned.
  return op.transfer(link, [=, &c, &w] {
    return ring ? c.ring_all_reduce(w, send, receive, elements, dtype, reduce_op)
                : w.comm->all_reduce(send, receive, elements, dtype, reduce_op);
  });
}

void to_wire(ConstTensorView from, void* to, DType wire) { convert_values(from.data(), from.dtype(), to, wire, from.elements()); }
void from_wire(const void* from, DType wire, TensorView to) { convert_values(from, wire, to.data(), to.dtype(), to.elements()); }

}  // namespace thinwire
