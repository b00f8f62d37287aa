// Protocol `rounds`: the codec gives a fixed sequence of dense reductions (dense = 1 sum; auto-encoder,
// shared-seed Random-K = 1 sum of codes; PowerSGD = sum P, orthonormalise, sum Q).
#include <utility>

#include "collectives/channel/channel_state.h"

namespace thinwire {
namespace {

std::int64_t elements_of(const Round& round) {
  return static_cast<std::int64_t>(round.send.size() / size_of(round.dtype));
}

/// own_decoded of the current rounds, where a wrapper wants it.
ConstTensorView own_of_rounds(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  if (!wants_own_decoded(op)) return {};
  w.own_decoded.reshape(op.in.shape());
  op.compute(CodecPhase::decode, [&] { c.stack.codec->as<Rounds>()->own_decoded(op.key, w.own_decoded.view()); });
  return std::as_const(w.own_decoded).view();
}

}  // namespace

Task rounds_all_reduce(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  Rounds& codec = *c.stack.codec->as<Rounds>();
  const int n = c.size();
  const ConstTensorView x = local_input(op);
  const int rounds = c.traits().rounds;
  for (int r = 0; r < rounds; ++r) {
    const Round round = op.compute_round([&] { return codec.begin_round(r, x, op.key, n); });
    op.report.payload_bytes += static_cast<std::int64_t>(round.send.size());
    co_await reduce_over_ranks(op, round.send.data(), round.receive.data(), elements_of(round), round.dtype,
                               round.op);
  }
  const ConstTensorView own = own_of_rounds(op);
  // A reduction that ends in part of the result still ran in full on every rank: the meter has counted all of
  // it.
  const bool partial = op.kind != OperationKind::all_reduce;
  if (partial) w.sum.reshape(x.shape());
  const TensorView sum = partial ? w.sum.view() : op.out;
  op.compute(CodecPhase::decode, [&] {
    codec.end_rounds(op.key, n, sum);
    average(op, sum);
    c.stack.deliver(sum, op.key);
  });
  after_reduce(op, x, own, sum);
  if (!partial) co_return;
  const bool scatter = op.kind == OperationKind::reduce_scatter;
  op.report.algorithm =
      scatter ? "all_reduce by rounds, slice kept" : "all_reduce by rounds, kept at the root";
  if (!scatter && op.peer != c.rank()) co_return;
  const ConstTensorView kept = scatter
                                   ? rows_of(ConstTensorView(sum), shard_rows(x.shape().rows(), c.rank(), n))
                                   : ConstTensorView(sum);
  op.compute(CodecPhase::decode, [&] {
    copy_bytes(op.out.data(), kept.data(), kept.bytes());
  });
}

// Rounds on independent row blocks: each round's send buffers of all blocks are laid side by side and reduce-scattered at once. Only
// the owner of a block gets its reductions, so what is sent in later rounds follows from the tensor alone. The codec holds one message
// at a time, so a rank encodes its own block last and hands the reduced rounds of it back to it.
Task rounds_reduce_scatter(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  Rounds& codec = *c.stack.codec->as<Rounds>();
  const int n = c.size(), me = c.rank(), rounds = c.traits().rounds;
  const ConstTensorView x = local_input(op);
  const bool wants_own = wants_own_decoded(op);
  if (wants_own) w.own_decoded.reshape(x.shape());
  const std::int64_t rows = x.shape().rows();

  // Of round r and block d.
  const auto at = [n](int r, int d) { return static_cast<std::size_t>(r * n + d); };
  w.sizes.assign(at(rounds, 0), 0);
  std::vector<std::int64_t> parts(at(rounds, 0), 0);
  std::vector<Round> mine(static_cast<std::size_t>(rounds));  // their types and operators are those of every block
  // Blocks travel contiguously, but a block's place is known only when the ones before it are encoded: encode
  // in rank order into `payload`, own block last, then gather the parts in order.
  const std::size_t slack = 64 * at(rounds, 0);
  w.wire_in.reserve(2 * x.bytes() + slack);
  w.payload.reserve(2 * x.bytes() + slack);
  const auto encode = [&] {
    std::size_t used = 0;
    for (int i = 1; i <= n; ++i) {
      const int d = (me + i) % n;
      const RowBlock block = shard_rows(rows, d, n);
      if (block.count == 0) continue;
      const MessageKey key = piece_key(op, d);
      for (int r = 0; r < rounds; ++r) {
        const Round round = codec.begin_round(r, rows_of(x, block), key, n);
        TW_ASSERT(used + round.send.size() <= w.payload.capacity(), "rounds larger than twice their tensor");
        copy_bytes(w.payload.data() + used, round.send.data(), round.send.size());
        parts[at(r, d)] = static_cast<std::int64_t>(used);
        w.sizes[at(r, d)] = static_cast<std::int64_t>(round.send.size());
        used += round.send.size();
        mine[static_cast<std::size_t>(r)] = round;
      }
      if (wants_own) codec.own_decoded(key, rows_of(w.own_decoded.view(), block));
    }
    // As one message: everything sent, my block received into the codec's own memory. Without rows of my own nothing is received.
    const bool has_rows = shard_rows(rows, me, n).count > 0;
    std::size_t place = 0;
    for (int r = 0; r < rounds; ++r) {
      place = (place + 63) / 64 * 64;  // of any type
      const std::size_t first = place;
      for (int d = 0; d < n; ++d) {
        const auto bytes = static_cast<std::size_t>(w.sizes[at(r, d)]);
        copy_bytes(w.wire_in.data() + place, w.payload.data() + parts[at(r, d)], bytes);
        place += bytes;
      }
      Round& round = mine[static_cast<std::size_t>(r)];
      round.send = {w.wire_in.data() + first, place - first};
      if (!has_rows) round.receive = {};
    }
  };
  const bool ring = c.options.algorithm == DenseAlgorithm::ring;
  for (int r = 0; r < rounds; ++r) {
    const Round round = op.compute_round([&] {
      if (r == 0) encode();
      return mine[static_cast<std::size_t>(r)];
    });
    if (r == 0) {
      std::vector<std::int64_t>& remembered = c.round_sizes[{rows, x.shape().columns()}];
      if (c.codec_timer.mode() == ComputeMode::replay)
        w.sizes = remembered;
      else
        remembered = w.sizes;
    }
    op.report.payload_bytes += static_cast<std::int64_t>(round.send.size());
    w.peer_sizes.assign(w.sizes.begin() + r * n, w.sizes.begin() + (r + 1) * n);
    const LinkBytes link = ring_reduce_scatter_bytes(w.peer_sizes, me);
    for (std::int64_t& bytes : w.peer_sizes) bytes /= static_cast<std::int64_t>(size_of(round.dtype));
    op.report.algorithm =
        ring ? "ring reduce_scatter of codes" : "library reduce_scatter of codes (counted as ring)";
    co_await op.transfer(link, [&] {
      return ring ? c.ring_reduce_scatter(w, round.send.data(), round.receive.data(), w.peer_sizes, round.dtype, round.op)
                  : w.comm->reduce_scatter_v(round.send.data(), round.receive.data(), w.peer_sizes, round.dtype, round.op);
    });
  }
  if (op.out.elements() > 0) {
    op.compute(CodecPhase::decode, [&] {
      codec.end_rounds(piece_key(op, me), n, op.out);
      average(op, op.out);
      c.stack.deliver(op.out, op.key);
    });
  }
  after_reduce(op, x, wants_own ? std::as_const(w.own_decoded).view() : ConstTensorView(), {});
}

}  // namespace thinwire
