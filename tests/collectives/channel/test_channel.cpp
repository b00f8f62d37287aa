// labels: mpi
// ranks: 1,2,3,4,8
// timeout: 240
// slow: n8
// optimised: yes
// Operations as resumable handles: order, overlap, point-to-point messages, wrappers, timed compute, meter.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/link/link_calibration.h"
#include "core/clock.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

int me() {
  return world().rank();
}
int n() {
  return world().size();
}

/// Keeps the elements above 0.5: a payload whose size depends on the data. It also spins, counts its calls
/// and remembers when it worked, for the tests of timed compute.
class Varying final : public Codec {
 public:
  Varying() { traits_.fixed_size = false; }
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    return static_cast<std::size_t>(shape.elements()) * 8;
  }
  std::size_t write_payload(ConstTensorView x, const MessageKey&, std::span<std::byte> payload) override {
    work();
    std::size_t used = 0;
    const auto values = x.as<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] <= 0.5f) continue;
      const auto index = static_cast<std::uint32_t>(i);
      std::memcpy(payload.data() + used, &index, 4);
      std::memcpy(payload.data() + used + 4, &values[i], 4);
      used += 8;
    }
    return used;
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey&, TensorView out) override {
    work();
    const auto values = out.as<float>();
    std::fill(values.begin(), values.end(), 0.0f);
    for (std::size_t used = 0; used < payload.size(); used += 8) {
      std::uint32_t index = 0;
      std::memcpy(&index, payload.data() + used, 4);
      std::memcpy(&values[index], payload.data() + used + 4, 4);
    }
  }
  static float kept(float x) { return x > 0.5f ? x : 0.0f; }

  static inline std::int64_t work_ns = 0;
  static inline int calls = 0;
  static inline std::vector<std::int64_t> intervals;

 private:
  static void work() {
    ++calls;
    // A sixth of it on the processor at least, whoever else takes the core.
    const std::int64_t start = now_ns(), cpu = thread_cpu_ns();
    while (now_ns() - start < work_ns || thread_cpu_ns() - cpu < work_ns / 6) {
    }
    if (work_ns > 0) intervals.insert(intervals.end(), {start, now_ns()});
  }
  CodecTraits traits_;
};

const bool registered =
    register_codec({.name = "test_varying",
                    .summary = "keeps what exceeds 0.5",
                    .source = "this test",
                    .parameters = {},
                    .has_released_form = false,
                    .make = [](const Parameters&, Form) { return std::make_unique<Varying>(); }});

Channel open_channel(const std::string& codec, Protocol protocol = Protocol::automatic,
                     DType wire = DType::f32, TrafficClass traffic = TrafficClass::dp_gradient) {
  return Channel(world(), {.traffic = traffic, .codec = codec, .protocol = protocol, .comm_dtype = wire});
}

std::vector<float> expected_sum(std::int64_t count, const char* name) {
  std::vector<float> sum(static_cast<std::size_t>(count), 0);
  for (int r = 0; r < n(); ++r) {
    const auto x = integer_input(count, name, r);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
  }
  return sum;
}

TEST(Channel, PayloadsOfVaryingSizeAreAnnouncedAndCounted) {
  const std::int64_t rows = 9, columns = 5;
  const Shape shape{rows, columns};
  std::vector<double> expected(45, 0);
  for (int r = 0; r < n(); ++r) {
    const auto x = normal_input(45, "varying", r);
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] += Varying::kept(x[i]);
  }
  const auto x = normal_input(45, "varying", me());
  const auto kept =
      static_cast<std::int64_t>(std::count_if(x.begin(), x.end(), [](float v) { return v > 0.5f; }));
  for (Protocol protocol : {Protocol::gather, Protocol::two_shot}) {
    Channel channel = open_channel("test_varying", protocol);
    std::vector<float> out(45);
    const OperationReport report =
        channel.all_reduce({x.data(), shape}, {out.data(), shape}, key_of("v")).wait();
    if (protocol == Protocol::gather) {
      EXPECT_LT(relative_l2(out, expected), 1e-6);
      EXPECT_EQ(report.payload_bytes, 8 * kept);
    }
    EXPECT_TRUE(equal_on_all_ranks(out.data(), 45 * 4));
    const RowBlock block = shard_rows(rows, me(), n());
    std::vector<float> part(static_cast<std::size_t>(block.count * columns));
    channel.reduce_scatter({x.data(), shape}, {part.data(), Shape{block.count, columns}}, key_of("v")).wait();
    const std::vector<double> slice(expected.begin() + block.first * columns,
                                    expected.begin() + (block.first + block.count) * columns);
    EXPECT_LT(relative_l2(part, slice), 1e-6);
  }
}

TEST(Channel, OperationsFinishFirstInFirstOutAndEachGetsItsOwnResult) {
  Channel channel = open_channel("none", Protocol::rounds);
  constexpr int count = 6;
  const char* names[count] = {"a", "b", "c", "d", "e", "f"};
  std::vector<std::vector<float>> in(count), out(count);
  std::vector<Operation> operations;
  for (int i = 0; i < count; ++i) {
    const std::int64_t elements = 1000 * (count - i);
    in[static_cast<std::size_t>(i)] = integer_input(elements, names[i], me());
    out[static_cast<std::size_t>(i)].resize(static_cast<std::size_t>(elements));
    operations.push_back(channel.all_reduce({in[static_cast<std::size_t>(i)].data(), Shape{elements}},
                                            {out[static_cast<std::size_t>(i)].data(), Shape{elements}},
                                            key_of(names[i])));
  }
  while (!operations.back().test()) {
    bool later_done = false;
    for (int i = count - 1; i >= 0;
         --i) {  // asked from the last to the first: whoever precedes a finished one is finished
      const bool done = operations[static_cast<std::size_t>(i)].test();
      EXPECT_TRUE(done || !later_done) << "operation " << i << " was overtaken";
      later_done = later_done || done;
    }
  }
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(out[static_cast<std::size_t>(i)], expected_sum(1000 * (count - i), names[i]));
  EXPECT_EQ(channel.meter().operations(), count);
}

// Rounds depend on one another: without progress of all channels in every wait this hangs.
TEST(Channel, RanksMayWaitForOperationsOfSeveralChannelsInDifferentOrders) {
  std::vector<Channel> channels;
  for (int i = 0; i < 4; ++i)
    channels.push_back(open_channel(i % 2 ? "powersgd:rank=2" : "test_varying",
                                    i % 2 ? Protocol::rounds : Protocol::two_shot));
  const Shape shape{32, 16};
  for (int repetition = 0; repetition < 5; ++repetition) {
    std::vector<std::vector<float>> out(8, std::vector<float>(512));
    const auto x = normal_input(512, "order", me());
    std::vector<Operation> operations;
    for (std::size_t i = 0; i < 8; ++i) {
      operations.push_back(
          channels[i % 4].all_reduce({x.data(), shape}, {out[i].data(), shape}, key_of("w", repetition)));
      channels[(i + 1) % 4].progress();
    }
    // Every rank its own order.
    for (std::size_t i = 0; i < 8; ++i) operations[(i * 3 + static_cast<std::size_t>(me() * 5)) % 8].wait();
    for (const auto& result : out) EXPECT_TRUE(equal_on_all_ranks(result.data(), 512 * 4));
  }
}

TEST(Channel, AnOperationRunsOnWhenItsHandleIsDropped) {
  Channel channel = open_channel("none", Protocol::rounds);
  const auto x = integer_input(100, "dropped", me());
  std::vector<float> first(100), second(100);
  channel.all_reduce({x.data(), Shape{100}}, {first.data(), Shape{100}}, key_of("a"));
  channel.all_reduce({x.data(), Shape{100}}, {second.data(), Shape{100}}, key_of("b")).wait();
  EXPECT_EQ(first, expected_sum(100, "dropped"));
  EXPECT_EQ(first, second);
}

TEST(PointToPoint, BothDirectionsAtOnceWithLargeMessagesDoNotDeadlock) {
  if (n() < 2) GTEST_SKIP() << "needs two ranks";
  const std::int64_t count = 1 << 20;  // 4 MiB: beyond every eager limit
  const int right = (me() + 1) % n(), left = (me() + n() - 1) % n();
  for (const char* codec : {"none", "cast", "test_varying"}) {
    for (bool receive_first : {false, true}) {
      Channel channel = open_channel(codec, Protocol::automatic, DType::f32, TrafficClass::pp_forward);
      const auto x = integer_input(count, "p2p", me());
      std::vector<float> from_left(x.size()), from_right(x.size());
      std::vector<Operation> operations;
      const auto send_both = [&] {
        operations.push_back(channel.send({x.data(), Shape{1024, 1024}}, right, key_of("r")));
        operations.push_back(channel.send({x.data(), Shape{1024, 1024}}, left, key_of("l")));
      };
      if (!receive_first) send_both();
      operations.push_back(channel.receive({from_left.data(), Shape{1024, 1024}}, left, key_of("r")));
      operations.push_back(channel.receive({from_right.data(), Shape{1024, 1024}}, right, key_of("l")));
      if (receive_first) send_both();
      // Waiting in any order: the first may be one whose partner comes last.
      for (std::size_t i = 0; i < operations.size(); ++i)
        operations[(i + static_cast<std::size_t>(me())) % operations.size()].wait();
      const auto seen = [&](int rank) {
        auto y = integer_input(count, "p2p", rank);
        if (std::string(codec) == "test_varying")
          std::transform(y.begin(), y.end(), y.begin(), Varying::kept);
        return y;
      };
      EXPECT_EQ(from_left, seen(left)) << codec;
      EXPECT_EQ(from_right, seen(right)) << codec;
    }
  }
}

TEST(PointToPoint, MessagesArriveInOrderWithTheirOwnSizesAndCounts) {
  if (n() < 2) GTEST_SKIP() << "needs two ranks";
  Channel channel =
      open_channel("test_varying", Protocol::point_to_point, DType::f16, TrafficClass::pp_forward);
  const bool sender = me() % 2 == 0;
  const int partner = sender ? me() + 1 : me() - 1;
  if (partner >= n()) {
    world().barrier();
    return;
  }
  std::vector<std::vector<float>> data(5);
  std::vector<Operation> operations;
  const char* names[] = {"m0", "m1", "m2", "m3", "m4"};
  for (std::size_t i = 0; i < 5; ++i) {
    const auto x = normal_input(100, names[i], sender ? me() : partner);
    if (sender) {
      data[i] = x;
      operations.push_back(channel.send({data[i].data(), Shape{100}}, partner, key_of(names[i])));
    } else {
      data[i].resize(100);
      operations.push_back(channel.receive({data[i].data(), Shape{100}}, partner, key_of(names[i])));
    }
  }
  for (std::size_t i = 0; i < 5; ++i) {
    const OperationReport report = operations[i].wait();
    auto expected = normal_input(100, names[i], sender ? me() : partner);
    const auto bytes = 8 * std::count_if(expected.begin(), expected.end(), [](float v) { return v > 0.5f; });
    EXPECT_EQ(sender ? report.link_bytes : report.received_bytes, bytes);
    EXPECT_EQ(sender ? report.received_bytes : report.link_bytes, 0);
    EXPECT_EQ(sender ? report.payload_bytes : 0, sender ? bytes : 0);
    EXPECT_EQ(report.dense_bytes, 200);
    if (!sender) {
      std::transform(expected.begin(), expected.end(), expected.begin(), Varying::kept);
      EXPECT_EQ(data[i], expected);
    }
  }
  world().barrier();
}

TEST(PointToPoint, AReceiverOfAnotherShapeIsToldSo) {
  if (n() < 2) GTEST_SKIP() << "needs two ranks";
  Channel channel = open_channel("none", Protocol::automatic, DType::f32, TrafficClass::pp_forward);
  std::vector<float> x(100, 1.0f);
  if (me() == 0) channel.send({x.data(), Shape{50}}, 1, key_of("x")).wait();
  if (me() == 1) {
    EXPECT_THROW(channel.receive({x.data(), Shape{100}}, 0, key_of("x")).wait(), RuntimeFailure);
  }
  world().barrier();
}

TEST(PointToPoint, ErrorFeedbackOnTheSenderLosesNothing) {
  if (n() < 2) GTEST_SKIP() << "needs two ranks";
  Channel channel =
      open_channel("topk:fraction=0.2+ef", Protocol::automatic, DType::f32, TrafficClass::pp_backward);
  const Shape shape{10, 20};
  const auto x = normal_input(200, "ef", 0);
  std::vector<double> mean(200, 0);
  std::vector<float> got(200);
  double early = 0;
  for (int step = 0; step < 40 && me() < 2; ++step) {
    if (me() == 0) channel.send({x.data(), shape}, 1, key_of("x", step)).wait();
    if (me() == 1) {
      channel.receive({got.data(), shape}, 0, key_of("x", step)).wait();
      std::vector<double> average(200);
      for (std::size_t i = 0; i < 200; ++i) {
        mean[i] += got[i];
        average[i] = mean[i] / (step + 1);
      }
      if (step == 3) early = relative_l2(average, x);
      if (step == 39) {
        EXPECT_LT(relative_l2(average, x), 0.3 * early);
      }
    }
  }
  world().barrier();
}

TEST(TimedCompute, SerialSectionsNeverOverlapOnTheMachineAndReplayCallsNoCodec) {
  Channel channel = open_channel("test_varying", Protocol::gather);
  const Shape shape{16, 16};
  const auto x = normal_input(256, "timed", me());
  std::vector<float> out(256), replayed(256);
  const auto once = [&](std::vector<float>& y) {
    world().barrier();
    return channel.all_reduce({x.data(), shape}, {y.data(), shape}, key_of("t")).wait();
  };
  EXPECT_THROW(
      {
        channel.set_compute(ComputeMode::replay);
        once(out);
      },
      UsageError);
  Varying::work_ns = 3'000'000;
  Varying::intervals.clear();
  channel.set_compute(ComputeMode::serial);
  for (int i = 0; i < 3; ++i) once(out);
  Varying::work_ns = 0;

  // Every rank's intervals, sorted by start: none begins before the one before it ended.
  const auto mine = static_cast<std::int64_t>(Varying::intervals.size() * sizeof(std::int64_t));
  std::vector<std::int64_t> all(Varying::intervals.size() * static_cast<std::size_t>(n()));
  world().all_gather(Varying::intervals.data(), mine, all.data())->wait();
  std::vector<std::pair<std::int64_t, std::int64_t>> sorted;
  for (std::size_t i = 0; i < all.size(); i += 2) sorted.emplace_back(all[i], all[i + 1]);
  std::sort(sorted.begin(), sorted.end());
  // One encode and n decodes of 3 ms per rank and pass.
  EXPECT_EQ(sorted.size(), static_cast<std::size_t>(3 * n() * (1 + n())));
  for (std::size_t i = 1; i < sorted.size(); ++i) EXPECT_GE(sorted[i].first, sorted[i - 1].second);

  channel.set_compute(ComputeMode::replay);
  Varying::calls = 0;
  const OperationReport report = once(replayed);
  EXPECT_EQ(Varying::calls, 0);
  EXPECT_GE(report.encode_us, 3000);
  EXPECT_GE(report.decode_us, 3000.0 * n());
  EXPECT_GE(report.encode_cpu_us, 300);
  EXPECT_GE(report.total_us, report.encode_us + report.decode_us);
  EXPECT_EQ(report.payload_bytes, 8 * std::count_if(x.begin(), x.end(), [](float v) { return v > 0.5f; }));
  channel.set_compute(ComputeMode::real);
  once(out);
  EXPECT_GT(Varying::calls, 0);
}

TEST(TimedCompute, ReplaysOfReductionsInPlaceDoNotCompound) {
  for (const char* codec : {"none", "cast", "powersgd:rank=2"}) {
    for (DenseAlgorithm algorithm : {DenseAlgorithm::library, DenseAlgorithm::ring}) {
      Channel channel(
          world(),
          {.traffic = TrafficClass::dp_gradient, .codec = codec, .comm_dtype = DType::f32, .algorithm = algorithm});
      const Shape shape{12, 8};
      std::vector<float> x = normal_input(96, "inplace", me());
      channel.set_compute(ComputeMode::serial);
      const OperationReport serial =
          channel.all_reduce({x.data(), shape}, {x.data(), shape}, key_of("x")).wait();
      const std::vector<float> after = x;
      channel.set_compute(ComputeMode::replay);
      for (int i = 0; i < 40; ++i) {
        const OperationReport replay =
            channel.all_reduce({x.data(), shape}, {x.data(), shape}, key_of("x", i + 1)).wait();
        EXPECT_EQ(replay.link_bytes, serial.link_bytes);
      }
      EXPECT_EQ(x, after) << codec;
    }
  }
}

TEST(TimedCompute, EveryKindOfOperationReplaysWithTheSameBytes) {
  for (const char* codec : {"topk:fraction=0.1", "test_varying", "cast"}) {
    for (Protocol protocol : {Protocol::gather, Protocol::two_shot, Protocol::rounds}) {
      if (protocol == Protocol::rounds && std::string(codec) != "cast") continue;
      Channel channel = open_channel(codec, protocol);
      const Shape shape{9, 20};
      const RowBlock block = shard_rows(9, me(), n());
      const Shape part{block.count, 20};
      const auto x = normal_input(180, "kinds", me());
      std::vector<float> whole(180), mine(static_cast<std::size_t>(part.elements()));
      const auto all = [&] {
        std::vector<std::int64_t> bytes;
        bytes.push_back(
            channel.all_reduce({x.data(), shape}, {whole.data(), shape}, key_of("x")).wait().link_bytes);
        bytes.push_back(
            channel.reduce_scatter({x.data(), shape}, {mine.data(), part}, key_of("x")).wait().link_bytes);
        bytes.push_back(
            channel.all_gather({x.data(), part}, {whole.data(), shape}, key_of("x")).wait().link_bytes);
        bytes.push_back(channel.broadcast({whole.data(), shape}, 0, key_of("x")).wait().link_bytes);
        bytes.push_back(
            channel.reduce({x.data(), shape}, {whole.data(), shape}, 0, key_of("x")).wait().link_bytes);
        if (n() > 1) {
          Operation send = channel.send({x.data(), shape}, (me() + 1) % n(), key_of("x"));
          bytes.push_back(channel.receive({whole.data(), shape}, (me() + n() - 1) % n(), key_of("x"))
                              .wait()
                              .received_bytes);
          bytes.push_back(send.wait().link_bytes);
        }
        return bytes;
      };
      channel.set_compute(ComputeMode::serial);
      const auto serial = all();
      channel.set_compute(ComputeMode::replay);
      EXPECT_EQ(all(), serial) << codec << " by " << name_of(protocol);
    }
  }
}

TEST(TokenBucket, EmptyingItIsNotCountedInBytesOrTimesAndNothingDeadlocks) {
  if (n() < 2) GTEST_SKIP() << "needs two ranks";
  for (const char* codec : {"none", "topk:fraction=0.1", "powersgd:rank=2"}) {
    Channel plain = open_channel(codec), drained = open_channel(codec);
    drained.empty_bucket_before_transfers(20000);
    const Shape shape{40, 50};
    const auto x = normal_input(2000, "bucket", me());
    std::vector<float> a(2000), b(2000);
    const OperationReport without =
        plain.all_reduce({x.data(), shape}, {a.data(), shape}, key_of("x")).wait();
    const OperationReport with = drained.all_reduce({x.data(), shape}, {b.data(), shape}, key_of("x")).wait();
    EXPECT_EQ(a, b);
    EXPECT_EQ(without.link_bytes, with.link_bytes);
    EXPECT_EQ(without.untimed_us, 0);
    EXPECT_GT(with.untimed_us, 0);
    // Two ranks that send to each other, both emptying first.
    Operation send = drained.send({x.data(), shape}, (me() + 1) % n(), key_of("s"));
    Operation receive = drained.receive({b.data(), shape}, (me() + n() - 1) % n(), key_of("s"));
    receive.wait();
    send.wait();
  }
}

TEST(Calibration, ALinkWithoutARateIsMeasuredAndTrustedAndOneRankHasNone) {
  const std::vector<std::int64_t> sizes = {1, 5000, 200000};
  const auto rates = calibrate_link(world(), "shm", sizes, {.repetitions = 3, .idle_gap_s = 0.001});
  EXPECT_EQ(rates.size(), n() == 1 ? 0 : 2 * sizes.size());
  for (const LinkRate& rate : rates) {
    EXPECT_TRUE(rate.trusted);
    EXPECT_TRUE(std::isnan(rate.nominal_gbps));
    EXPECT_GT(rate.measured_gbps, 0);
  }
}

// One chunk of four, of which rank 0 sends the first element and all others the second: a sum has each as many times its mean over who sent it as there are ranks.
TEST(Gather, AMeanOverSendersDividesByThoseThatSentAnElement) {
  for (const bool own_pieces : {false, true}) {  // an all_reduce, and a reduce_scatter of a chunk for each rank
    Channel channel(world(), {.traffic = TrafficClass::dp_gradient, .codec = "chunk_topk:chunk=2,k=1,values=f32,mean=senders", .protocol = Protocol::gather, .average = true});
    const std::int64_t rows = own_pieces ? 2 * n() : 2;
    std::vector<float> x(static_cast<std::size_t>(2 * rows), 0.0f), out(own_pieces ? 4 : x.size(), 1e6f);
    for (std::size_t chunk = 0; chunk < x.size(); chunk += 4) x[chunk + (me() == 0 ? 0 : 1)] = static_cast<float>(me() + 1);
    const Shape shape{rows, 2};
    if (own_pieces)
      channel.reduce_scatter({x.data(), shape}, {out.data(), Shape{2, 2}}, key_of("senders")).wait();
    else
      channel.all_reduce({x.data(), shape}, {out.data(), shape}, key_of("senders")).wait();
    const float others = n() == 1 ? 0 : 0.5f * static_cast<float>(n() + 2);  // mean of 2 to n
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], i % 4 == 0 ? 1 : i % 4 == 1 ? others : 0, 1e-5) << i << (own_pieces ? ", own pieces" : "");
  }
  EXPECT_THROW(Channel(world(), {.traffic = TrafficClass::dp_gradient, .codec = "chunk_topk:mean=senders+hadamard"}), UsageError);
}

// What a training does that diverges. Every rank wrote what f16 holds, so no payload is damaged: it is the sum that cannot be represented.
TEST(Channel, ASumBeyondItsTypeIsNotRepresentableOnAnyRank) {
  std::vector<float> x(60, 60000.0f), out(60);
  const Shape shape{10, 6};
  for (const char* codec : {"cast", "randomk:fraction=1", "powersgd:rank=2,wire=f16"}) {
    Channel channel = open_channel(codec, Protocol::rounds);
    if (n() > 1) {
      EXPECT_THROW(channel.all_reduce({x.data(), shape}, {out.data(), shape}, key_of("sum")).wait(), NotRepresentable) << codec;
    }
    std::vector<float> nan(60, std::nanf(""));
    EXPECT_THROW(channel.all_reduce({nan.data(), shape}, {out.data(), shape}, key_of("nan")).wait(), NotRepresentable) << codec;
  }
  Channel apart = open_channel("cast", Protocol::gather);
  EXPECT_NO_THROW(apart.all_reduce({x.data(), shape}, {out.data(), shape}, key_of("sum")).wait()) << "decoded before they are added";
  EXPECT_EQ(out[7], 60000.0f * static_cast<float>(n()));
}

TEST(Meter, SumsOperationsAndRemembersTheLast) {
  Channel channel = open_channel("none", Protocol::dense, DType::f16);
  std::vector<float> x(300, 1.0f);
  channel.all_reduce({x.data(), Shape{100}}, {x.data(), Shape{100}}, key_of("a")).wait();
  channel.all_reduce({x.data(), Shape{300}}, {x.data(), Shape{300}}, key_of("b")).wait();
  EXPECT_EQ(channel.meter().operations(), 2);
  EXPECT_EQ(channel.meter().total().dense_bytes, 800);
  EXPECT_EQ(channel.meter().last().dense_bytes, 600);
  channel.meter().reset();
  EXPECT_EQ(channel.meter().operations(), 0);
  EXPECT_EQ(channel.meter().total().dense_bytes, 0);
}

}  // namespace
}  // namespace thinwire
