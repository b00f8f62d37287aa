// Protocol `gather`: all ranks' payloads travel as they are; every receiver decodes them all and sums, in
// rank order, so that all ranks hold equal bits.
#include <algorithm>
#include <utility>

#include "collectives/channel/channel_state.h"

namespace thinwire {
namespace {

/// Encodes x into channel.payload; returns the payload's size.
std::int64_t encode_payload(Operation::State& op, ConstTensorView x, const MessageKey& key) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  const std::size_t most = x.elements() > 0 ? c.stack.codec->max_payload_bytes(x.shape()) : 0;
  w.payload.reserve(most);
  if (most == 0) return 0;
  const std::int64_t bytes = op.compute(CodecPhase::encode, [&] {
    return c.stack.codec->encode(x, key, {w.payload.data(), most});
  });
  op.report.payload_bytes += bytes;
  return bytes;
}

/// The same for what is only moved: the payload of an earlier operation where the channel may send it again. Its bytes are in `payload`,
/// which stays valid until the next operation of this key.
struct Payload {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};
Payload encode_once(Operation::State& op, ConstTensorView x, const MessageKey& key) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  if (!c.options.reuse_payloads) {
    const std::int64_t bytes = encode_payload(op, x, key);
    return {w.payload.data(), bytes};
  }
  ChannelState::Encoded& kept = c.encoded[key.state_key()];
  if (kept.step == key.step) {
    op.skip_section();
    ++op.report.reused_payloads;
    op.report.payload_bytes += kept.bytes;
  } else {
    std::swap(w.payload, kept.payload);
    kept.bytes = encode_payload(op, x, key);
    std::swap(w.payload, kept.payload);
    kept.step = key.step;
  }
  return {kept.payload.data(), kept.bytes};
}

std::span<const std::byte> received_from(const Workspace& w, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return {w.received.data() + w.offsets[r], static_cast<std::size_t>(w.sizes[r])};
}

/// Adds all received payloads into `sum`, in rank order; keeps this rank's own decoded tensor where wanted.
void decode_sum(ChannelState& c, Workspace& w, const MessageKey& key, TensorView sum, TensorView own) {
  Codec& codec = *c.stack.codec;
  w.to_add.clear();
  for (int r = 0; r < c.size(); ++r) w.to_add.push_back(received_from(w, r));
  add_up(c, w.to_add, key, sum);
  if (own.elements() > 0) codec.decode(received_from(w, c.rank()), key.with_pass(Pass::evaluate), own);
}

}  // namespace

Task gather_all_reduce(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  const ConstTensorView x = local_input(op);
  const std::int64_t bytes = encode_payload(op, x, op.key);
  co_await exchange_sizes(op, bytes, c.traits().fixed_size);
  w.received.reserve(static_cast<std::size_t>(aligned_offsets(w.sizes, w.offsets)));
  op.report.algorithm = "library all_gather of payloads (counted as ring)";
  co_await op.transfer(ring_all_gather_bytes(w.sizes, c.rank()), [&] {
    return w.comm->all_gather_v(w.payload.data(), bytes, w.received.data(), w.sizes, w.offsets);
  });
  TensorView own;
  if (wants_own_decoded(op)) {
    w.own_decoded.reshape(x.shape());
    own = w.own_decoded.view();
  }
  if (x.elements() > 0) {
    op.compute(CodecPhase::decode, [&] {
      decode_sum(c, w, op.key, op.out, own);
      average(op, op.out);
      c.stack.deliver(op.out, op.key);
    });
  }
  after_reduce(op, x, own, op.out);
}

Task gather_reduce(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  const bool root = op.peer == c.rank();
  const auto root_index = static_cast<std::size_t>(op.peer);
  if (std::ranges::any_of(c.stack.wrappers, [](const auto& wrapper) { return wrapper->remembers_results(); }))
    throw UsageError(op.describe() + ": a wrapper goes on from the last result, which this leaves at the root alone; use all_reduce");
  const ConstTensorView x = local_input(op);
  const std::int64_t bytes = encode_payload(op, x, op.key);
  co_await exchange_sizes(op, bytes, c.traits().fixed_size);
  w.received.reserve(static_cast<std::size_t>(aligned_offsets(w.sizes, w.offsets)));
  // Everything goes to the root, nothing anywhere else.
  const std::vector<std::int64_t> nothing(static_cast<std::size_t>(c.size()), 0);
  w.peer_sizes = nothing;
  w.peer_sizes[root_index] = bytes;
  const std::vector<std::int64_t>& arriving = root ? w.sizes : nothing;
  op.report.algorithm = "payloads sent to the root";
  co_await op.transfer(direct_all_to_all_bytes(w.peer_sizes, arriving, c.rank()), [&] {
    return w.comm->all_to_all_v(w.payload.data(), w.peer_sizes, nothing, w.received.data(), arriving,
                                w.offsets);
  });
  TensorView own;
  if (wants_own_decoded(op) && x.elements() > 0) {
    w.own_decoded.reshape(x.shape());
    own = w.own_decoded.view();
  }
  if (x.elements() > 0 && root) {
    op.compute(CodecPhase::decode, [&] {
      decode_sum(c, w, op.key, op.out, own);
      average(op, op.out);
      c.stack.deliver(op.out, op.key);
    });
  } else if (own.elements() > 0) {
    op.compute(CodecPhase::decode, [&] {
      c.stack.codec->decode({w.payload.data(), static_cast<std::size_t>(bytes)}, op.key.with_pass(Pass::evaluate), own);
    });
  }
  after_reduce(op, x, own, root ? ConstTensorView(op.out) : ConstTensorView());
}

// Blocks of all ranks, each encoded by its owner; the owner, too, keeps the decoded one.
Task coded_all_gather(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  Codec& codec = *c.stack.codec;
  const int n = c.size(), me = c.rank();
  const std::int64_t rows = op.out.shape().rows();
  const ConstTensorView x = local_input(op);
  const Payload mine = encode_once(op, x, piece_key(op, me));
  co_await exchange_sizes(op, mine.bytes, c.traits().fixed_size && rows % n == 0);
  w.received.reserve(static_cast<std::size_t>(aligned_offsets(w.sizes, w.offsets)));
  op.report.algorithm = "library all_gather of payloads (counted as ring)";
  co_await op.transfer(ring_all_gather_bytes(w.sizes, me), [&] {
    return w.comm->all_gather_v(mine.data, mine.bytes, w.received.data(), w.sizes, w.offsets);
  });
  op.compute(CodecPhase::decode, [&] {
    for (int r = 0; r < n; ++r) {
      const RowBlock block = shard_rows(rows, r, n);
      if (block.count == 0) continue;
      const TensorView target = rows_of(op.out, block);
      codec.decode(received_from(w, r), piece_key(op, r), target);
      if (r == me) {
        c.stack.after_encode(x, target, op.key);
        c.stack.keep_own(target, op.key);
      } else {
        c.stack.after_decode(target, piece_key(op, r));
      }
    }
  });
}

Task coded_broadcast(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  const bool root = op.peer == c.rank();
  Payload payload;
  ConstTensorView x;
  if (root) {
    x = local_input(op);
    payload = encode_once(op, x, op.key);
  }
  // Only the root has encoded, so only the root knows the size.
  w.sizes.assign(1, payload.bytes);
  constexpr std::int64_t word = sizeof(std::int64_t);
  co_await op.transfer(chain_broadcast_bytes(word, c.rank(), c.size(), op.peer),
                       [&] { return w.host_comm().broadcast(w.sizes.data(), word, op.peer); });
  const std::int64_t bytes = w.sizes[0];
  if (!root) {
    w.payload.reserve(static_cast<std::size_t>(bytes));
    payload = {w.payload.data(), bytes};
  }
  op.report.algorithm = "library broadcast of a payload (counted as chain)";
  co_await op.transfer(chain_broadcast_bytes(bytes, c.rank(), c.size(), op.peer),
                       [&] { return w.comm->broadcast(payload.data, bytes, op.peer); });
  if (op.out.elements() == 0) co_return;
  op.compute(CodecPhase::decode, [&] {
    c.stack.codec->decode({payload.data, static_cast<std::size_t>(bytes)}, op.key, op.out);
    if (root) {
      c.stack.after_encode(x, op.out, op.key);
      c.stack.keep_own(op.out, op.key);
    } else {
      c.stack.after_decode(op.out, piece_key(op, op.peer));  // what is remembered of it is this root's
    }
  });
}

}  // namespace thinwire
