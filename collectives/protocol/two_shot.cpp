// Protocol `two_shot`: pieces encoded per destination and exchanged directly, summed in fp32 by their owners,
// encoded again and all-gathered. All ranks, the owner too, decode the same payloads and so hold equal bits.
#include <utility>

#include "collectives/channel/channel_state.h"

namespace thinwire {
namespace {

/// The first shot: `sum` (my row block) = sum over ranks of what their pieces for me decode to. Fills
/// own_decoded with the decoded own pieces where a wrapper wants them.
Task exchange_pieces(Operation::State& op, ConstTensorView x, TensorView sum) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  Codec& codec = *c.stack.codec;
  const int n = c.size(), me = c.rank();
  const auto mine = static_cast<std::size_t>(me);
  const std::int64_t rows = x.shape().rows(), columns = x.shape().columns();
  const auto block_of = [&](int d) { return shard_rows(rows, d, n); };

  // Every piece has room for its largest payload.
  std::vector<std::int64_t> room(static_cast<std::size_t>(n), 0), places;
  for (int d = 0; d < n; ++d) {
    const RowBlock block = block_of(d);
    if (block.count > 0)
      room[static_cast<std::size_t>(d)] =
          static_cast<std::int64_t>(codec.max_payload_bytes({block.count, columns}));
  }
  w.payload.reserve(static_cast<std::size_t>(aligned_offsets(room, places)));
  std::vector<std::int64_t> sent(static_cast<std::size_t>(n), 0);
  for (int d = 0; d < n; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (room[i] == 0) continue;
    sent[i] = op.compute(CodecPhase::encode, [&] {
      return codec.encode(rows_of(x, block_of(d)), piece_key(op, d),
                          {w.payload.data() + places[i], static_cast<std::size_t>(room[i])});
    });
    op.report.payload_bytes += sent[i];
  }

  // Pieces for me have my block's shape; only payloads of varying size need to be announced.
  std::vector<std::int64_t> arriving(static_cast<std::size_t>(n), sent[mine]);
  if (!c.traits().fixed_size && n > 1) {
    std::vector<std::int64_t> words(static_cast<std::size_t>(n), sizeof(std::int64_t)),
        word_places(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < word_places.size(); ++i)
      word_places[i] = static_cast<std::int64_t>(i * sizeof(std::int64_t));
    co_await op.transfer(direct_all_to_all_bytes(words, words, me), [&] {
      return w.host_comm().all_to_all_v(sent.data(), words, word_places, arriving.data(), words, word_places);
    });
  }
  w.sizes = arriving;
  w.received.reserve(static_cast<std::size_t>(aligned_offsets(w.sizes, w.offsets)));
  const LinkBytes link = direct_all_to_all_bytes(sent, w.sizes, me);
  // My own piece stays where it is.
  w.peer_sizes = sent;
  w.peer_sizes[mine] = 0;
  arriving[mine] = 0;
  co_await op.transfer(link, [&] {
    return w.comm->all_to_all_v(w.payload.data(), w.peer_sizes, places, w.received.data(), arriving,
                                w.offsets);
  });

  const bool wants_own = wants_own_decoded(op);
  if (wants_own) w.own_decoded.reshape(x.shape());
  op.compute(CodecPhase::decode, [&] {
    const auto own_piece = [&](int d) {
      const auto i = static_cast<std::size_t>(d);
      return std::span<const std::byte>(w.payload.data() + places[i], static_cast<std::size_t>(sent[i]));
    };
    if (sum.elements() > 0) {
      w.to_add.clear();
      for (int r = 0; r < n; ++r) {
        const auto i = static_cast<std::size_t>(r);
        w.to_add.push_back(r == me ? own_piece(me)
                                 : std::span<const std::byte>(w.received.data() + w.offsets[i],
                                                              static_cast<std::size_t>(w.sizes[i])));
      }
      add_up(c, w.to_add, piece_key(op, me), sum);
    }
    for (int d = 0; d < n && wants_own; ++d) {
      if (room[static_cast<std::size_t>(d)] > 0)
        codec.decode(own_piece(d), piece_key(op, d).with_pass(Pass::evaluate), rows_of(w.own_decoded.view(), block_of(d)));
    }
  });
}

ConstTensorView own_view(const Operation::State& op) {
  return wants_own_decoded(op) ? ConstTensorView(op.work->own_decoded.view()) : ConstTensorView();
}

}  // namespace

Task gather_reduce_scatter(Operation::State& op) {
  ChannelState& c = op.channel;
  const ConstTensorView x = local_input(op);
  co_await exchange_pieces(op, x, op.out);
  op.report.algorithm = "direct all_to_all of pieces";
  if (op.out.elements() > 0 && (c.options.average || c.wrapped())) {
    op.compute(CodecPhase::decode, [&] {
      average(op, op.out);
      c.stack.deliver(op.out, op.key);
    });
  }
  after_reduce(op, x, own_view(op), {});
}

Task two_shot_all_reduce(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  Codec& codec = *c.stack.codec;
  const int n = c.size(), me = c.rank();
  const ConstTensorView x = local_input(op);
  const std::int64_t rows = x.shape().rows(), columns = x.shape().columns();
  const RowBlock mine = shard_rows(rows, me, n);
  w.sum.reshape({mine.count, columns});
  co_await exchange_pieces(op, x, w.sum.view());

  // Second shot. Wrappers see it as a message of its own (the server's error of 1-bit Adam), remembered apart from the first shots of all slices, which have numbers from 0.
  const MessageKey key = piece_key(op, n + me), remembered = op.key.with_slice(-1 - op.key.slice);
  const std::size_t most = mine.count > 0 ? codec.max_payload_bytes(w.sum.shape()) : 0;
  w.payload.reserve(most);
  std::int64_t bytes = 0;
  if (most > 0) {
    bytes = op.compute(CodecPhase::encode, [&] {
      c.stack.deliver(w.sum.view(), op.key);
      c.stack.before_encode(w.sum.view(), remembered);
      return codec.encode(std::as_const(w.sum).view(), key, {w.payload.data(), most});
    });
    op.report.payload_bytes += bytes;
  }
  co_await exchange_sizes(op, bytes, c.traits().fixed_size && rows % n == 0);
  w.received.reserve(static_cast<std::size_t>(aligned_offsets(w.sizes, w.offsets)));
  op.report.algorithm = "direct all_to_all of pieces, library all_gather of sums (counted as ring)";
  co_await op.transfer(ring_all_gather_bytes(w.sizes, me), [&] {
    return w.comm->all_gather_v(w.payload.data(), bytes, w.received.data(), w.sizes, w.offsets);
  });
  op.compute(CodecPhase::decode, [&] {
    for (int r = 0; r < n; ++r) {
      const RowBlock block = shard_rows(rows, r, n);
      if (block.count == 0) continue;
      const auto i = static_cast<std::size_t>(r);
      const TensorView target = rows_of(op.out, block);
      codec.decode({w.received.data() + w.offsets[i], static_cast<std::size_t>(w.sizes[i])}, piece_key(op, n + r), target);
      if (r == me) {
        c.stack.after_encode(std::as_const(w.sum).view(), target, remembered);
        c.stack.keep_own(target, remembered);
      } else {
        c.stack.after_decode(target, piece_key(op, n + r));
      }
    }
    average(op, op.out);
  });
  after_reduce(op, x, own_view(op), op.out);
}

}  // namespace thinwire
