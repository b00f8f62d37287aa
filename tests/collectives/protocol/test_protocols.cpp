// labels: mpi
// ranks: 1,2,3,4,8
// timeout: 240
// slow: n8
// Every protocol with every codec of the registry, over awkward row counts, against what the codec's own
// encode and decode give on one rank in float64: gather = sum of the individually decoded; two_shot = the
// same per piece, then once more per sum; rounds = end_rounds of exactly added buffers; lossless = the sum
// itself.
#include <cstring>
#include <numeric>

#include "core/device/placement.h"
#include "core/half.h"
#include "core/tensor_names.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t columns = 24;
const std::vector<std::int64_t> row_counts = {1, 2, 3, 5, 7, 16, 40};

// Every registered codec with default parameters, and variants that reach other code.
std::vector<std::string> codecs() {
  std::vector<std::string> names;
  for (const CodecInfo* info : all_codecs()) names.push_back(info->name);
  return names;
}

struct Fitted {
  std::vector<float> samples = normal_input(256 * columns, "samples", 0);
  ConstTensorView view() const { return {samples.data(), Shape{256, columns}}; }
};

void fit(Codec& codec) {
  static const Fitted fitted;
  const ConstTensorView views[] = {fitted.view()};
  if (codec.traits().needs_fit) codec.as<Fit>()->fit(views);
}

std::vector<std::vector<float>> inputs(std::int64_t rows, std::int64_t step = 0) {
  std::vector<std::vector<float>> all;
  const std::string name = "protocol" + std::to_string(step);
  for (int r = 0; r < world().size(); ++r) all.push_back(normal_input(rows * columns, name.c_str(), r));
  return all;
}

std::vector<float> decoded(Codec& codec, ConstTensorView x, const MessageKey& key,
                           std::int64_t* bytes = nullptr) {
  std::vector<std::byte> payload(codec.max_payload_bytes(x.shape()));
  const std::size_t size = codec.encode(x, key, payload);
  if (bytes != nullptr) *bytes = static_cast<std::int64_t>(size);
  std::vector<float> out(static_cast<std::size_t>(x.elements()));
  codec.decode({payload.data(), size}, key, {out.data(), x.shape()});
  return out;
}

MessageKey piece(const MessageKey& key, int i) {
  return key.with_slice(key.slice * 2 * world().size() + i);
}

/// What a rank rounds with in a sum, by a channel without a name of its own (ChannelOptions::draws).
MessageKey sent_by(int rank, MessageKey key) {
  key.sender = mix_stream(0, static_cast<std::uint64_t>(rank) + 1);
  return key;
}

/// A fresh codec of one rank: its encode and decode are the oracle, apart from channels.
std::unique_ptr<Codec> fresh(const std::string& name) {
  CodecStack stack = make_codec(name);
  fit(*stack.codec);
  return std::move(stack.codec);
}

bool can(const std::string& name, Protocol protocol) {
  const CodecStack stack = make_codec(name);
  const CodecTraits& traits = stack.codec->traits();
  return protocol == Protocol::rounds ? traits.rounds > 0 : traits.gather;
}

Channel make_channel(const std::string& codec, Protocol protocol, bool average = false) {
  Channel channel(
      world(),
      {.traffic = TrafficClass::dp_gradient, .codec = codec, .protocol = protocol, .average = average});
  fit(*channel.codec().codec);
  return channel;
}

/// f32 sums of n terms may differ from float64 by this much, relative to the sum's norm.
double rounding() {
  return 2e-7 * world().size();
}

double norm(const std::vector<float>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

/// Sum over ranks of the norms of what each rank's rows alone reduce to: what rounding is relative to. The
/// norm of the sum will not do: few terms may nearly cancel.
double norms_of_rounds(const std::string& name, const RowBlock& block, const MessageKey& key,
                       const std::vector<std::vector<float>>& all) {
  double norms = 0;
  const Shape shape{block.count, columns};
  for (const auto& x : all) {
    auto codec = fresh(name);
    for (int r = 0; r < codec->traits().rounds; ++r) {
      const Round round = codec->as<Rounds>()->begin_round(r, {x.data() + block.first * columns, shape}, key, 1);
      copy_bytes(round.receive.data(), round.send.data(), round.send.size());
    }
    std::vector<float> own(static_cast<std::size_t>(shape.elements()));
    codec->as<Rounds>()->end_rounds(key, 1, {own.data(), shape});
    norms += norm(own);
  }
  return norms;
}

template <typename Expected>
double distance(const std::vector<float>& out, const Expected& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i)
    sum += std::pow(static_cast<double>(out[i]) - static_cast<double>(expected[i]), 2);
  return std::sqrt(sum);
}

// What an all-reduce must give and what it must cost.
struct Expected {
  std::vector<double> sum;
  double terms = 0;  ///< sum of the norms of what is added
  std::int64_t payload = 0;
  LinkBytes link;
};

Expected expect_gather(const std::string& name, std::int64_t rows, const MessageKey& key) {
  Expected e;
  e.sum.assign(static_cast<std::size_t>(rows * columns), 0);
  const auto all = inputs(rows, key.step);
  std::vector<std::int64_t> sizes;
  bool fixed = true;
  for (const auto& x : all) {
    auto codec = fresh(name);
    fixed = codec->traits().fixed_size;
    std::int64_t bytes = 0;
    const auto y = decoded(*codec, {x.data(), Shape{rows, columns}}, sent_by(static_cast<int>(sizes.size()), key), &bytes);
    for (std::size_t i = 0; i < y.size(); ++i) e.sum[i] += y[i];
    e.terms += norm(y);
    sizes.push_back(bytes);
  }
  const int me = world().rank();
  e.payload = sizes[static_cast<std::size_t>(me)];
  e.link = ring_all_gather_bytes(sizes, me);
  if (!fixed && sizes.size() > 1) e.link += {8 * (world().size() - 1), 8 * (world().size() - 1)};
  return e;
}

Expected expect_two_shot(const std::string& name, std::int64_t rows, const MessageKey& key) {
  const int n = world().size(), me = world().rank();
  const auto all = inputs(rows, key.step);
  Expected e;
  e.sum.assign(static_cast<std::size_t>(rows * columns), 0);
  std::vector<std::vector<std::int64_t>> first(static_cast<std::size_t>(n),
                                               std::vector<std::int64_t>(static_cast<std::size_t>(n), 0));
  std::vector<std::int64_t> second(static_cast<std::size_t>(n), 0);
  bool fixed = true;
  for (int d = 0; d < n; ++d) {
    const RowBlock block = shard_rows(rows, d, n);
    if (block.count == 0) continue;
    const Shape shape{block.count, columns};
    std::vector<float> sum(static_cast<std::size_t>(shape.elements()), 0);
    for (int r = 0; r < n; ++r) {
      auto codec = fresh(name);
      fixed = codec->traits().fixed_size;
      const float* x = all[static_cast<std::size_t>(r)].data() + block.first * columns;
      const auto y = decoded(*codec, {x, shape}, sent_by(r, piece(key, d)),
                             &first[static_cast<std::size_t>(r)][static_cast<std::size_t>(d)]);
      for (std::size_t i = 0; i < y.size(); ++i)
        sum[i] += y[i];  // fp32 in rank order, as the protocol promises
      e.terms += norm(y);
    }
    auto codec = fresh(name);
    const auto y =
        decoded(*codec, {sum.data(), shape}, sent_by(d, piece(key, n + d)), &second[static_cast<std::size_t>(d)]);
    for (std::size_t i = 0; i < y.size(); ++i)
      e.sum[static_cast<std::size_t>(block.first * columns) + i] = y[i];
  }
  const auto mine = static_cast<std::size_t>(me);
  std::vector<std::int64_t> arriving;
  for (int r = 0; r < n; ++r) arriving.push_back(first[static_cast<std::size_t>(r)][mine]);
  e.link = direct_all_to_all_bytes(first[mine], arriving, me);
  e.link += ring_all_gather_bytes(second, me);
  const std::int64_t words = 8 * (n - 1);
  if (!fixed) e.link += {words, words};
  if (n > 1 && (!fixed || rows % n != 0)) e.link += {words, words};
  e.payload = second[mine];
  for (std::int64_t bytes : first[mine]) e.payload += bytes;
  return e;
}

/// Runs the rounds of one message on n fresh codecs side by side, adding buffers in float64.
Expected expect_rounds(const std::string& name, std::int64_t rows, const MessageKey& key) {
  const int n = world().size(), me = world().rank();
  const auto all = inputs(rows, key.step);
  std::vector<std::unique_ptr<Codec>> ranks;
  for (int r = 0; r < n; ++r) ranks.push_back(fresh(name));
  Expected e;
  for (int round = 0; round < ranks[0]->traits().rounds; ++round) {
    std::vector<Round> rs;
    for (int r = 0; r < n; ++r) {
      const auto i = static_cast<std::size_t>(r);
      rs.push_back(ranks[i]->as<Rounds>()->begin_round(round, {all[i].data(), Shape{rows, columns}}, key, n));
    }
    const std::size_t bytes = rs[0].send.size(), count = bytes / size_of(rs[0].dtype);
    e.payload += static_cast<std::int64_t>(bytes);
    e.link += ring_all_reduce_bytes(static_cast<std::int64_t>(count),
                                    static_cast<std::int64_t>(size_of(rs[0].dtype)), me, n);
    if (rs[0].op == ReduceOp::bit_or) {
      for (std::size_t i = 0; i < bytes; ++i) {
        std::byte any{0};
        for (const Round& r : rs) any |= r.send[i];
        for (Round& r : rs) r.receive[i] = any;
      }
      continue;
    }
    const auto value = [&](const Round& r, std::size_t i) -> double {
      if (r.dtype == DType::f32) {
        float v = 0;
        std::memcpy(&v, r.send.data() + i * 4, 4);
        return static_cast<double>(v);
      }
      std::uint16_t bits = 0;
      std::memcpy(&bits, r.send.data() + i * 2, 2);
      return r.dtype == DType::f16 ? to_float(Half{bits}) : to_float(BFloat16{bits});
    };
    EXPECT_TRUE(rs[0].dtype == DType::f32 || rs[0].dtype == DType::f16 || rs[0].dtype == DType::bf16);
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (const Round& r : rs) sum += value(r, i);
      for (Round& r : rs) {
        if (r.dtype == DType::f32) {
          const auto v = static_cast<float>(sum);
          std::memcpy(r.receive.data() + i * 4, &v, 4);
        } else {
          const std::uint16_t bits = r.dtype == DType::f16 ? to_half(static_cast<float>(sum)).bits
                                                           : to_bfloat16(static_cast<float>(sum)).bits;
          std::memcpy(r.receive.data() + i * 2, &bits, 2);
        }
      }
    }
  }
  std::vector<float> sum(static_cast<std::size_t>(rows * columns));
  ranks[static_cast<std::size_t>(me)]->as<Rounds>()->end_rounds(key, n, {sum.data(), Shape{rows, columns}});
  e.sum.assign(sum.begin(), sum.end());
  e.terms = norms_of_rounds(name, {0, rows}, key, all);
  return e;
}

// f16 sums of n terms round n - 1 times to 11 bits; f32 ones to 24. Two rounds of PowerSGD divide by small
// pivots.
double tolerance(const std::string& name, Protocol protocol) {
  if (protocol != Protocol::rounds) return rounding();
  const auto codec = fresh(name);
  std::vector<float> probe(4 * columns, 1.0f);
  Round round;  // the last one carries the values
  for (int r = 0; r < codec->traits().rounds; ++r) {
    round = codec->as<Rounds>()->begin_round(r, {probe.data(), Shape{4, columns}}, key_of("probe"), world().size());
    copy_bytes(round.receive.data(), round.send.data(), round.send.size());
  }
  const double unit = round.dtype == DType::f32 ? 1e-6 : round.dtype == DType::f16 ? 1e-3 : 8e-3;
  return unit * world().size();
}

TEST(Protocols, AllReduceIsWhatTheCodecsOwnDecodeGivesAndCostsTheClosedForm) {
  for (const std::string& name : codecs()) {
    for (Protocol protocol : {Protocol::gather, Protocol::two_shot, Protocol::rounds}) {
      if (!can(name, protocol)) continue;
      for (std::int64_t rows : row_counts) {
        const std::string what = name + " by " + name_of(protocol) + ", " + std::to_string(rows) + " rows";
        // A fresh channel per shape: oracles are fresh codecs, with no warm start behind them.
        Channel channel = make_channel(name, protocol);
        const MessageKey key = key_of("weights", 5);
        const Expected expected = protocol == Protocol::gather     ? expect_gather(name, rows, key)
                                  : protocol == Protocol::two_shot ? expect_two_shot(name, rows, key)
                                                                   : expect_rounds(name, rows, key);
        const Shape shape{rows, columns};
        std::vector<float> in = inputs(rows, 5)[static_cast<std::size_t>(world().rank())], out(in.size(), -1);
        const OperationReport report =
            channel.all_reduce({in.data(), shape}, {out.data(), shape}, key).wait();
        EXPECT_LE(distance(out, expected.sum), tolerance(name, protocol) * expected.terms) << what;
        EXPECT_TRUE(equal_on_all_ranks(out.data(), static_cast<std::int64_t>(out.size() * 4)))
            << what << ": ranks differ in bits";
        EXPECT_EQ(report.payload_bytes, expected.payload) << what;
        EXPECT_EQ(report.link_bytes, expected.link.sent) << what;
        EXPECT_EQ(report.received_bytes, expected.link.received) << what;
        EXPECT_EQ(report.dense_bytes, rows * columns * 2) << what;
        EXPECT_STRNE(report.algorithm, "");
      }
    }
  }
}

TEST(Protocols, InPlaceAndAsAMeanGiveTheSameUpToTheDivision) {
  for (const std::string& name : codecs()) {
    for (Protocol protocol : {Protocol::gather, Protocol::two_shot, Protocol::rounds}) {
      if (!can(name, protocol)) continue;
      const std::int64_t rows = 11;
      const Shape shape{rows, columns};
      const auto in = inputs(rows)[static_cast<std::size_t>(world().rank())];
      Channel summing = make_channel(name, protocol), averaging = make_channel(name, protocol, true);
      std::vector<float> sum(in.size()), in_place = in;
      summing.all_reduce({in.data(), shape}, {sum.data(), shape}, key_of("w")).wait();
      averaging.all_reduce({in_place.data(), shape}, {in_place.data(), shape}, key_of("w")).wait();
      for (float& value : in_place) value *= static_cast<float>(world().size());
      EXPECT_LE(relative_l2(in_place, sum), 1e-6) << name << " by " << name_of(protocol);
    }
  }
}

TEST(Protocols, ReduceScatterGivesTheRowsThatItsPiecesDecodeTo) {
  const int n = world().size(), me = world().rank();
  for (const std::string& name : codecs()) {
    for (Protocol protocol : {Protocol::gather, Protocol::two_shot}) {
      if (!can(name, protocol)) continue;
      for (std::int64_t rows : row_counts) {
        const std::string what = name + " by " + name_of(protocol) + ", " + std::to_string(rows) + " rows";
        const MessageKey key = key_of("shards", 2);
        const RowBlock block = shard_rows(rows, me, n);
        const Shape shape{rows, columns}, part{block.count, columns};
        const auto all = inputs(rows, 2);
        std::vector<double> expected(static_cast<std::size_t>(part.elements()), 0);
        double terms = 0;
        for (int r = 0; r < n && block.count > 0; ++r) {
          auto codec = fresh(name);
          const auto y =
              decoded(*codec, {all[static_cast<std::size_t>(r)].data() + block.first * columns, part},
                      sent_by(r, piece(key, me)));
          for (std::size_t i = 0; i < y.size(); ++i) expected[i] += y[i];
          terms += norm(y);
        }
        Channel channel = make_channel(name, protocol);
        std::vector<float> out(expected.size());
        channel.reduce_scatter({all[static_cast<std::size_t>(me)].data(), shape}, {out.data(), part}, key)
            .wait();
        EXPECT_LE(distance(out, expected), rounding() * terms) << what;
      }
    }
  }
}

TEST(Protocols, ReduceScatterByRoundsIsTheSliceOfRoundsPerShardOrOfTheWholeReduction) {
  const int n = world().size(), me = world().rank();
  for (const std::string& name : codecs()) {
    if (!can(name, Protocol::rounds)) continue;
    const bool per_shard = fresh(name)->traits().rounds_per_shard;
    for (std::int64_t rows : row_counts) {
      const std::string what = name + ", " + std::to_string(rows) + " rows";
      const MessageKey key = key_of("shards", 3);
      const RowBlock block = shard_rows(rows, me, n);
      const Shape shape{rows, columns}, part{block.count, columns};
      const auto all = inputs(rows, 3);
      Channel channel = make_channel(name, Protocol::rounds);
      std::vector<float> out(static_cast<std::size_t>(part.elements()));
      const OperationReport report =
          channel.reduce_scatter({all[static_cast<std::size_t>(me)].data(), shape}, {out.data(), part}, key)
              .wait();
      std::vector<float> expected(out.size());
      if (per_shard) {
        // Linear codecs: the rounds of the sum of the inputs are the sum of the rounds.
        std::vector<float> sum(static_cast<std::size_t>(part.elements()), 0);
        for (const auto& x : all) {
          for (std::size_t i = 0; i < sum.size(); ++i)
            sum[i] += x[static_cast<std::size_t>(block.first * columns) + i];
        }
        if (block.count > 0) {
          auto codec = fresh(name);
          for (int r = 0; r < codec->traits().rounds; ++r) {
            const Round round = codec->as<Rounds>()->begin_round(r, {sum.data(), part}, piece(key, me), 1);
            copy_bytes(round.receive.data(), round.send.data(), round.send.size());
          }
          codec->as<Rounds>()->end_rounds(piece(key, me), 1, {expected.data(), part});
        }
        // World-dependent scaling (a random subset divides by its share only) is the codec's; compare up to
        // rounding.
        EXPECT_STRNE(report.algorithm, "all_reduce by rounds, slice kept");
      } else {
        const Expected whole = expect_rounds(name, rows, key);
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] = static_cast<float>(whole.sum[static_cast<std::size_t>(block.first * columns) + i]);
        EXPECT_EQ(report.link_bytes, whole.link.sent) << what << ": the meter tells that all was reduced";
        EXPECT_STREQ(report.algorithm, "all_reduce by rounds, slice kept");
      }
      const double terms = block.count > 0 ? norms_of_rounds(name, per_shard ? block : RowBlock{0, rows},
                                                             per_shard ? piece(key, me) : key, all)
                                           : 0;
      EXPECT_LE(distance(out, expected), tolerance(name, Protocol::rounds) * terms) << what;
    }
  }
}

TEST(Protocols, AllGatherAndBroadcastLeaveEveryRankTheOwnerTooWithTheDecodedTensor) {
  const int n = world().size(), me = world().rank();
  for (const std::string& name : codecs()) {
    if (!can(name, Protocol::gather) || name == "none")
      continue;  // none moves tensors as they are: test_dense
    const std::int64_t rows = 13;
    const auto all = inputs(rows);
    const Shape shape{rows, columns};
    const MessageKey key = key_of("weights", 0);
    Channel channel = make_channel(name, Protocol::gather);
    std::vector<float> expected, out(all[0].size(), -1);
    for (int r = 0; r < n; ++r) {
      const RowBlock block = shard_rows(rows, r, n);
      if (block.count == 0) continue;
      auto codec = fresh(name);
      const auto y = decoded(
          *codec,
          {all[static_cast<std::size_t>(r)].data() + block.first * columns, Shape{block.count, columns}},
          piece(key, r));
      expected.insert(expected.end(), y.begin(), y.end());
    }
    const RowBlock mine = shard_rows(rows, me, n);
    channel
        .all_gather(
            {all[static_cast<std::size_t>(me)].data() + mine.first * columns, Shape{mine.count, columns}},
            {out.data(), shape}, key)
        .wait();
    EXPECT_EQ(out, expected) << name;

    const int root = n / 2;
    std::vector<float> data = all[static_cast<std::size_t>(me)];
    channel.broadcast({data.data(), shape}, root, key_of("other")).wait();
    auto codec = fresh(name);
    EXPECT_EQ(data, decoded(*codec, {all[static_cast<std::size_t>(root)].data(), shape}, key_of("other")))
        << name;
  }
}

TEST(Protocols, APayloadIsReusedUntilItsStepEndsOrItIsForgotten) {
  const int n = world().size();
  ChannelOptions options;
  options.traffic = TrafficClass::param_all_gather, options.codec = "randomk:fraction=0.5", options.reuse_payloads = true;
  Channel channel(world(), options);
  const std::int64_t rows = 3 * n, width = 17;
  std::vector<float> mine = integer_input(3 * width, "weights", world().rank()), all(static_cast<std::size_t>(rows * width)), first;
  const auto gather = [&](const char* tensor, std::int64_t step) -> OperationReport {
    return channel.all_gather(ConstTensorView(mine.data(), {3, width}), TensorView(all.data(), {rows, width}), key_of(tensor, step)).wait();
  };
  const OperationReport fresh = gather("w", 0);
  EXPECT_EQ(fresh.reused_payloads, 0);
  first = all;
  for (float& x : mine) x += 1;  // not told, so not seen: the bytes are those of the first message
  std::fill(all.begin(), all.end(), 0.0f);
  const OperationReport again = gather("w", 0);
  EXPECT_EQ(all, first);
  EXPECT_EQ(again.reused_payloads, 1);
  EXPECT_EQ(again.encode_us, 0);
  EXPECT_EQ(again.payload_bytes, fresh.payload_bytes);
  EXPECT_EQ(again.link_bytes, fresh.link_bytes);
  EXPECT_EQ(gather("another", 0).reused_payloads, 0);
  EXPECT_EQ(gather("w", 0).reused_payloads, 1);
  EXPECT_EQ(gather("w", 1).reused_payloads, 0);
  EXPECT_NE(all, first);
  EXPECT_EQ(gather("w", 1).reused_payloads, 1);
  channel.forget_payloads();
  EXPECT_EQ(gather("w", 1).reused_payloads, 0);
  // A broadcast: its root alone encodes.
  std::vector<float> data = mine;
  for (const std::int64_t expected : {0, 1}) {
    data = mine;
    const OperationReport r = channel.broadcast(TensorView(data.data(), {3, width}), n - 1, key_of("b")).wait();
    EXPECT_EQ(r.reused_payloads, world().rank() == n - 1 ? expected : 0);
  }
  for (const char* codec : {"powersgd:rank=2", "quantize:bits=8+ef"}) {
    options.codec = codec;
    EXPECT_THROW(Channel(world(), options), UsageError) << codec;
  }
}

TEST(Protocols, ReduceGivesTheRootWhatAnAllReduceGives) {
  const int n = world().size(), me = world().rank(), root = n - 1;
  for (const std::string& name : codecs()) {
    for (Protocol protocol : {Protocol::gather, Protocol::rounds}) {
      if (!can(name, protocol)) continue;
      const Shape shape{7, columns};
      const auto in = inputs(7)[static_cast<std::size_t>(me)];
      Channel one = make_channel(name, protocol), other = make_channel(name, protocol);
      std::vector<float> all(in.size()), at_root(in.size(), -1);
      one.all_reduce({in.data(), shape}, {all.data(), shape}, key_of("w")).wait();
      other.reduce({in.data(), shape}, {at_root.data(), shape}, root, key_of("w")).wait();
      if (me == root) {
        EXPECT_EQ(at_root, all) << name << " by " << name_of(protocol);
      } else {
        EXPECT_EQ(at_root, std::vector<float>(in.size(), -1)) << "only the root's output is written";
      }
    }
  }
}

TEST(Protocols, AMajorityOfSignsIsVotedByCounts) {
  for (const std::int64_t rows : row_counts) {
    const auto all = inputs(rows, 9);
    double scale = 0;
    for (const auto& x : all)
      for (const float v : x) scale += std::abs(v) / static_cast<double>(x.size() * all.size());
    Channel channel = make_channel("sign:vote=majority", Protocol::automatic, true);
    const Shape shape{rows, columns};
    const std::vector<float>& in = all[static_cast<std::size_t>(world().rank())];
    std::vector<float> out(in.size());
    const OperationReport report = channel.all_reduce({in.data(), shape}, {out.data(), shape}, key_of("votes", 9)).wait();
    for (std::size_t i = 0; i < out.size(); ++i) {
      int votes = 0;
      for (const auto& x : all) votes += x[i] < 0 ? -1 : 1;
      ASSERT_NEAR(out[i], votes >= 0 ? scale : -scale, 1e-5 * scale) << rows << " rows, element " << i;
    }
    EXPECT_EQ(report.payload_bytes, rows * columns + 4) << "a byte per element and a scale";
    EXPECT_TRUE(equal_on_all_ranks(out.data(), static_cast<std::int64_t>(out.size() * 4)));
  }
}

TEST(Protocols, TheIdentityThroughRoundsIsBitEqualToNoCodecInF32) {
  const Shape shape{37, columns};
  const auto in = inputs(37)[static_cast<std::size_t>(world().rank())];
  for (DenseAlgorithm algorithm : {DenseAlgorithm::library, DenseAlgorithm::ring}) {
    ChannelOptions options{.traffic = TrafficClass::dp_gradient,
                           .codec = "none",
                           .protocol = Protocol::dense,
                           .comm_dtype = DType::f32,
                           .algorithm = algorithm};
    Channel dense(world(), options);
    options.protocol = Protocol::rounds;
    Channel rounds(world(), options);
    std::vector<float> a(in.size()), b(in.size());
    const OperationReport direct =
        dense.all_reduce({in.data(), shape}, {a.data(), shape}, key_of("w")).wait();
    const OperationReport by_rounds =
        rounds.all_reduce({in.data(), shape}, {b.data(), shape}, key_of("w")).wait();
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * 4), 0);
    EXPECT_EQ(direct.link_bytes, by_rounds.link_bytes);

    const RowBlock block = shard_rows(shape.rows(), world().rank(), world().size());
    const Shape part{block.count, shape.columns()};
    std::vector<float> c(static_cast<std::size_t>(part.elements()) + 1), d(c.size());
    const OperationReport scattered = dense.reduce_scatter({in.data(), shape}, {c.data(), part}, key_of("w")).wait();
    const OperationReport scattered_by_rounds =
        rounds.reduce_scatter({in.data(), shape}, {d.data(), part}, key_of("w")).wait();
    EXPECT_EQ(std::memcmp(c.data(), d.data(), c.size() * 4), 0);
    EXPECT_EQ(scattered.link_bytes, scattered_by_rounds.link_bytes);
  }
}

TEST(Protocols, StatefulCodecsStayEqualOnAllRanksOverSteps) {
  for (const std::string& name : codecs()) {
    if (!fresh(name)->traits().stateful) continue;
    for (Protocol protocol : {Protocol::gather, Protocol::two_shot, Protocol::rounds}) {
      if (!can(name, protocol)) continue;
      Channel channel = make_channel(name, protocol);
      const Shape shape{16, columns};
      std::vector<float> out(static_cast<std::size_t>(shape.elements()));
      for (std::int64_t step = 0; step < 4; ++step) {
        const auto in = inputs(16, step)[static_cast<std::size_t>(world().rank())];
        channel.all_reduce({in.data(), shape}, {out.data(), shape}, key_of("w", step)).wait();
        EXPECT_TRUE(equal_on_all_ranks(out.data(), static_cast<std::int64_t>(out.size() * 4)))
            << name << " step " << step;
      }
    }
  }
}

// Error feedback loses nothing: over any number of steps, applied + stored = received. With the same input
// every step the mean of the outputs therefore tends to the input's sum, with an error that falls as 1 /
// steps.
TEST(Protocols, ErrorFeedbackConservesTheInputUnderEveryProtocol) {
  const Shape shape{16, columns};
  const auto all = inputs(16);
  const auto reference = sum_of_inputs(all);
  const auto& in = all[static_cast<std::size_t>(world().rank())];
  struct Case {
    std::string codec;
    Protocol protocol;
  };
  for (const Case& c :
       {Case{"topk:fraction=0.25+ef", Protocol::gather}, Case{"topk:fraction=0.25+ef", Protocol::two_shot},
        Case{"powersgd:rank=2+ef", Protocol::rounds}, Case{"powersgd:rank=2+ef", Protocol::gather}, Case{"powersgd:rank=2+ef", Protocol::two_shot},
        Case{"powersgd:rank=2+loco:beta=0,reset=0", Protocol::gather}}) {
    Channel channel = make_channel(c.codec, c.protocol);
    std::vector<double> applied(in.size(), 0);
    std::vector<float> out(in.size());
    double early = 0;
    constexpr int steps = 64;
    for (int step = 0; step < steps; ++step) {
      channel.all_reduce({in.data(), shape}, {out.data(), shape}, key_of("w", step)).wait();
      for (std::size_t i = 0; i < out.size(); ++i) applied[i] += out[i];
      std::vector<double> mean = applied;
      for (double& value : mean) value /= step + 1;
      if (step == 7) early = relative_l2(mean, reference);
      if (step == steps - 1) {
        EXPECT_LT(relative_l2(mean, reference), 0.35 * early + 1e-6) << c.codec << " by " << name_of(c.protocol);
      }
    }
  }
}

// What PowerSGD lets travel whole loses what its type on the wire rounds off: a residual against the mean over ranks would grow with every step, and with it what is sent.
TEST(Protocols, MatricesThatTravelDenseFeedBackTheirOwnRoundingAlone) {
  const Shape shape{16, columns};
  const auto all = inputs(16);
  const auto reference = sum_of_inputs(all);
  const auto& in = all[static_cast<std::size_t>(world().rank())];
  for (const std::string wire : {"f32", "f16", "f16+hadamard"}) {
    Channel channel = make_channel("powersgd:rank=2,min_ratio=100,wire=" + wire + "+ef", Protocol::rounds);
    std::vector<float> first, out(in.size());
    for (int step = 0; step < 300; ++step) {
      channel.all_reduce({in.data(), shape}, {out.data(), shape}, key_of("w", step)).wait();
      if (step == 0) first = out;
    }
    EXPECT_LT(relative_l2(std::vector<double>(out.begin(), out.end()), reference), 3e-3) << wire;
    if (wire == "f32") {
      EXPECT_EQ(out, first);
    }
  }
}

TEST(Protocols, ImpossiblePairingsAreRefusedAtConstruction) {
  const auto construct = [](const std::string& codec, Protocol protocol,
                            TrafficClass traffic = TrafficClass::dp_gradient) {
    Channel channel(world(), {.traffic = traffic, .codec = codec, .protocol = protocol});
  };
  EXPECT_THROW(construct("topk", Protocol::rounds), UsageError);
  EXPECT_THROW(construct("topk", Protocol::dense), UsageError);
  EXPECT_THROW(construct("none+ef", Protocol::dense), UsageError);
  EXPECT_THROW(construct("topk", Protocol::automatic, TrafficClass::control), UsageError);
  Channel pipeline(world(), {.traffic = TrafficClass::pp_forward, .codec = "topk"});
  EXPECT_EQ(pipeline.protocol(), Protocol::point_to_point);
  std::vector<float> x(24), y(24);
  EXPECT_THROW(pipeline.all_reduce({x.data(), Shape{1, 24}}, {y.data(), Shape{1, 24}}, key_of("x")),
               UsageError);
  EXPECT_EQ(Channel(world(), {.traffic = TrafficClass::tp_forward, .codec = "powersgd"}).protocol(),
            Protocol::rounds);
  EXPECT_EQ(Channel(world(), {.traffic = TrafficClass::tp_forward, .codec = "topk"}).protocol(),
            Protocol::gather);
  EXPECT_EQ(Channel(world(), {.traffic = TrafficClass::tp_forward}).protocol(), Protocol::dense);
}

// A wrapper's memory, and the copy of a tensor that it changes, are f32: bf16 passes a codec, and one that stands alone.
TEST(Protocols, Bf16IsMovedByACodecAloneAndRefusedWhereAWrapperIsAroundIt) {
  const int n = world().size();
  const Shape whole{3 * n, columns}, part{3, columns};
  Tensor in(part, DType::bf16), out(whole, DType::bf16);
  in.fill_zero(), out.fill_zero();
  Channel alone = make_channel("group:bits=8", Protocol::gather);
  EXPECT_NO_THROW(alone.all_gather(in.view(), out.view(), key_of("weights")).wait());
  EXPECT_NO_THROW(alone.broadcast(out.view(), 0, key_of("other")).wait());
  for (const char* codec : {"group:bits=8+ef21", "topk:fraction=0.5+ef"}) {
    Channel channel = make_channel(codec, Protocol::gather);
    for (const bool gathers : {true, false}) {
      try {
        gathers ? channel.all_gather(in.view(), out.view(), key_of("weights")) : channel.broadcast(out.view(), 0, key_of("other"));
        ADD_FAILURE() << codec << " took bf16";
      } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("takes f32 in collectives where a wrapper is around it, not bf16"), std::string::npos) << error.what();
      }
    }
  }
}

// All ranks get the bad value, so all see the error and no job needs to be aborted here (tests/faults does
// that).
TEST(Protocols, NaNInTheInputNamesTheTensorAndTheRank) {
  Channel channel(
      world(),
      {.traffic = TrafficClass::tp_backward, .codec = "topk:fraction=0.1", .protocol = Protocol::gather});
  std::vector<float> x(4 * 24, 1.0f), y(x.size());
  x[37] = std::nanf("");
  MessageKey key;
  key.tensor = tensor_id("layer3.mlp.weight");
  try {
    channel.all_reduce({x.data(), Shape{4, 24}}, {y.data(), Shape{4, 24}}, key).wait();
    FAIL() << "a NaN went through topk";
  } catch (const RuntimeFailure& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("layer3.mlp.weight"), std::string::npos) << text;
    EXPECT_NE(text.find("tp_backward"), std::string::npos) << text;
    EXPECT_NE(text.find("rank " + std::to_string(world().rank()) + " of"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace thinwire
