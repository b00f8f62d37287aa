// Protocol `rounds` as a reduce-scatter whose blocks are encoded while others travel (TAGC's overlap of shards, docs/papers/gradient_compression.md, "Overlap of
// shards"). It is our own ring (collectives/communicator/ring.h) with what a rank adds to a block encoded when its turn comes: in step s = 0 .. n - 1 rank me
//   encodes its part of block me - 1 - s (mod n), round by round, adds what its left neighbour has sent of it, and sends the sum to its right one,
// so the last block is its own, whose sums are then complete. Of each round the sums are those of the ring, in its order, and so are the bytes.
// With e to encode, t to send and d to decode a block, all alike, a rank takes about e + (n - 1) max(e, t) + d, in place of n e + (n - 1) t + d.
#include <array>
#include <utility>
#include <vector>

#include "collectives/channel/channel_state.h"
#include "collectives/communicator/local_reduce.h"

namespace thinwire {
namespace {

constexpr int block_tag = 20100;  // + round

/// What a round has on the link.
struct Lane {
  RequestPtr sending, arriving;
  std::int64_t arrived = 0;            ///< bytes
  std::array<std::byte*, 2> sums = {};  ///< of even and odd steps: one leaves while the other comes
};

/// `sum` holds what other ranks have added up so far.
void add_own(std::byte* sum, const Round& own) {
  reduce_into(sum, own.send.data(), static_cast<std::int64_t>(own.send.size() / size_of(own.dtype)), own.dtype, own.op);
}

}  // namespace

Task overlapped_reduce_scatter(Operation::State& op) {
  ChannelState& c = op.channel;
  Workspace& w = *op.work;
  Rounds& codec = *c.stack.codec->as<Rounds>();
  const int n = c.size(), me = c.rank(), left = (me - 1 + n) % n, right = (me + 1) % n;
  const ConstTensorView x = local_input(op);
  const bool wants_own = wants_own_decoded(op);
  if (wants_own) w.own_decoded.reshape(x.shape());
  const std::int64_t rows = x.shape().rows();
  const auto block_of_step = [&](int s) { return shard_rows(rows, (me - 1 - s + n) % n, n); };

  // How large a round is, is known when it is encoded; what may arrive before that has room for twice its block.
  const std::size_t room = (2 * rows_of(x, shard_rows(rows, 0, n)).bytes() + 127) / 64 * 64;
  std::vector<Lane> lanes(static_cast<std::size_t>(c.traits().rounds));
  w.wire_in.reserve(2 * room * lanes.size());
  for (std::size_t r = 0; r < lanes.size(); ++r) lanes[r].sums = {w.wire_in.data() + 2 * r * room, w.wire_in.data() + (2 * r + 1) * room};

  const auto expect = [&](std::size_t r, int s) {
    Lane& lane = lanes[r];
    lane.arriving = op.set_out(0, [&] {
      return w.comm->receive(lane.sums[static_cast<std::size_t>(s % 2)], static_cast<std::int64_t>(room), left, block_tag + static_cast<int>(r), &lane.arrived);
    });
  };
  op.report.algorithm = "ring reduce_scatter of codes, block by block";
  for (int s = 0; s < n; ++s) {
    const int d = (me - 1 - s + n) % n;
    const RowBlock block = block_of_step(s);
    if (block.count == 0) {  // nobody sends anything of it
      if (s == 0 && rows > 0) co_await op.link_ready(0);
      continue;
    }
    const MessageKey key = piece_key(op, d);
    for (std::size_t r = 0; r < lanes.size(); ++r) {
      Lane& lane = lanes[r];
      const Round own = op.compute_round([&] { return codec.begin_round(static_cast<int>(r), rows_of(x, block), key, n); });
      TW_ASSERT(own.send.size() <= room, "a round larger than twice its tensor");
      op.report.payload_bytes += static_cast<std::int64_t>(own.send.size());
      std::byte* const sum = d == me ? own.receive.data() : lane.sums[static_cast<std::size_t>(s % 2)];
      if (s > 0) {
        if (lane.arriving == nullptr) {  // the block before is empty: what was sent last may still leave from where this one is to go
          co_await op.land(std::move(lane.sending));
          expect(r, s);
        }
        co_await op.land(std::move(lane.arriving));
        if (lane.arrived != static_cast<std::int64_t>(own.send.size()))
          throw CorruptData("rank " + std::to_string(left) + " sent " + std::to_string(lane.arrived) + " bytes of round " + std::to_string(r) + " of block " + std::to_string(d) +
                            ", not " + std::to_string(own.send.size()) + "; all ranks must use the same codec and shape");
        op.count({0, lane.arrived});
        if (d == me) copy_bytes(sum, lane.sums[static_cast<std::size_t>(s % 2)], own.send.size());
        add_own(sum, own);
      } else {
        copy_bytes(sum, own.send.data(), own.send.size());
      }
      if (d == me) continue;
      const auto bytes = static_cast<std::int64_t>(own.send.size());
      if (s == 0 && r == 0) co_await op.link_ready(bytes);
      co_await op.land(std::move(lane.sending));
      if (block_of_step(s + 1).count > 0) expect(r, s + 1);
      lane.sending = op.set_out(bytes, [&] { return w.comm->send(sum, bytes, right, block_tag + static_cast<int>(r)); });
      op.count({bytes, 0});
    }
    if (wants_own) op.compute(CodecPhase::encode, [&] { codec.own_decoded(key, rows_of(w.own_decoded.view(), block)); });
  }
  if (op.out.elements() > 0) {
    op.compute(CodecPhase::decode, [&] {
      codec.end_rounds(piece_key(op, me), n, op.out);
      average(op, op.out);
      c.stack.deliver(op.out, op.key);
    });
  }
  for (Lane& lane : lanes) co_await op.land(std::move(lane.sending));
  after_reduce(op, x, wants_own ? std::as_const(w.own_decoded).view() : ConstTensorView(), {});
}

}  // namespace thinwire
