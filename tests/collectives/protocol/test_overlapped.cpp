// labels: mpi
// ranks: 1,2,3,4
// timeout: 300
// optimised: yes
// joined: no
// A reduce-scatter by rounds that encodes a block while others travel: the bits, bytes and state of the one that encodes all blocks first, over the machine's memory and
// over an emulated link, and what is on the link when a block is encoded.
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "collectives/link/counting_communicator.h"
#include "collectives/link/emulated_network.h"
#include "core/memory_counter.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/state.h"
#include "support/count_allocations.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;
using Floats = std::vector<float>;

ChannelOptions options_of(const std::string& codec, bool overlap, Form form = Form::fair) {
  ChannelOptions o;
  o.traffic = TrafficClass::grad_reduce_scatter, o.codec = codec, o.form = form, o.protocol = Protocol::rounds;
  o.algorithm = DenseAlgorithm::ring, o.overlap_blocks = overlap, o.average = true;
  return o;
}

struct Result {
  std::vector<Floats> blocks;  ///< of each step
  std::vector<OperationReport> reports;
  std::vector<std::byte> state;
};

Result run(Communicator& group, const ChannelOptions& options, const Shape& shape, int steps) {
  const int n = group.size(), me = group.rank();
  const Shape part{shard_rows(shape.rows(), me, n).count, shape.columns()};
  Channel channel(group, options);
  Result result;
  for (int step = 0; step < steps; ++step) {
    const Random random(7, mix_stream(static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(me)));
    Floats in(static_cast<std::size_t>(shape.elements())), out(static_cast<std::size_t>(part.elements()));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(random.normal(i));
    MessageKey key;
    key.tensor = hash_name("w"), key.step = step;
    result.reports.push_back(channel.reduce_scatter({in.data(), shape}, {out.data(), part}, key).wait());
    result.blocks.push_back(std::move(out));
  }
  result.state = channel.save_state();
  return result;
}

// Blocks that differ by a row, that are too short for a sketch, and that have no rows.
TEST(OverlappedBlocks, HaveTheBitsBytesAndStateOfTheSequentialForm) {
  const int n = world().size();
  const auto link = make_emulated_communicator(world().duplicate(), EmulatedLink::parse("emulated:40gbit,latency=5us"));
  struct Case {
    std::string codec;
    Form form = Form::fair;
  };
  const Case cases[] = {{"sketch"},     {"sketch:target=0.9,index_bits=4+ef"},   {"sketch:ratio=3+ef:store=int8"}, {"sketch", Form::released},
                        {"cast"},       {"randomk:fraction=0.3,values=f32+ef"}, {"cast:to=bf16+ef"}};
  for (Communicator* group : {&world(), link.get()})
    for (const Case& c : cases)
      for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, std::int64_t{n - 1}, std::int64_t{2 * n + 1}, std::int64_t{61}}) {
        const std::string what = c.codec + ", " + std::to_string(rows) + " rows, " + group->transport();
        const Shape shape{rows, 1000};
        const Result expected = run(*group, options_of(c.codec, false, c.form), shape, 3), got = run(*group, options_of(c.codec, true, c.form), shape, 3);
        EXPECT_TRUE(got.state == expected.state) << what;
        for (std::size_t step = 0; step < 3; ++step) {
          EXPECT_TRUE(got.blocks[step].size() == expected.blocks[step].size() &&
                      std::memcmp(got.blocks[step].data(), expected.blocks[step].data(), got.blocks[step].size() * sizeof(float)) == 0)
              << what << ", step " << step;
          const OperationReport &a = got.reports[step], &b = expected.reports[step];
          EXPECT_EQ(a.payload_bytes, b.payload_bytes) << what;
          EXPECT_EQ(a.link_bytes, b.link_bytes) << what;
          EXPECT_EQ(a.received_bytes, b.received_bytes) << what;
          EXPECT_STREQ(a.algorithm, "ring reduce_scatter of codes, block by block");
          EXPECT_STREQ(b.algorithm, "ring reduce_scatter of codes");
        }
      }
}

std::shared_ptr<LinkBytes> on_link = std::make_shared<LinkBytes>();
std::vector<std::int64_t> sent_before;  ///< when each round of this rank was begun

/// Two rounds, of which the first is the tensor; notes what is on the link when they begin.
class Watched final : public Codec, public Rounds {
 public:
  Watched() { traits_.rounds = 2, traits_.rounds_per_shard = true, traits_.gather = false, traits_.operators = {ReduceOp::sum}; }
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override { return static_cast<std::size_t>(8 * shape.elements()); }
  Round begin_round(int r, ConstTensorView x, const MessageKey&, int) override {
    sent_before.push_back(on_link->sent);
    const std::size_t bytes = x.bytes();
    Buffer& sent = sent_[static_cast<std::size_t>(r)];
    Buffer& received = received_[static_cast<std::size_t>(r)];
    sent.reserve(bytes), received.reserve(bytes);
    std::memcpy(sent.data(), x.data(), bytes);
    return {{sent.data(), bytes}, {received.data(), bytes}, DType::f32, ReduceOp::sum};
  }
  void end_rounds(const MessageKey&, int, TensorView sum) override { std::memcpy(sum.data(), received_[0].data(), sum.bytes()); }
  void own_decoded(const MessageKey&, TensorView) override {}

 protected:
  std::size_t write_payload(ConstTensorView, const MessageKey&, std::span<std::byte>) override { return 0; }
  void read_payload(std::span<const std::byte>, const MessageKey&, TensorView) override {}

 private:
  CodecTraits traits_;
  Buffer sent_[2], received_[2];
};
const bool registered = register_codec({.name = "test_watched", .summary = "for this test", .source = "none", .make = [](const Parameters&, Form) { return std::make_unique<Watched>(); }});

// When round r of the s-th block is begun, the s blocks before it and r rounds of it are on their way; the last block is the rank's own and stays.
TEST(OverlappedBlocks, ABlockIsEncodedWhileThoseBeforeItTravel) {
  const int n = world().size();
  const auto counted = make_counting_communicator(world().duplicate(), on_link);
  const Shape shape{2 * n, 100};
  const std::int64_t block = 2 * 100 * 4;
  for (const bool overlap : {true, false}) {
    *on_link = {}, sent_before.clear();
    const Result result = run(*counted, options_of("test_watched", overlap), shape, 1);
    std::vector<std::int64_t> expected;
    for (int s = 0; s < n; ++s)
      for (int r = 0; r < 2; ++r) expected.push_back(overlap ? std::min(2 * s + r, 2 * (n - 1)) * block : 0);
    EXPECT_EQ(sent_before, expected) << overlap;
    EXPECT_EQ(on_link->sent, 2 * (n - 1) * block);
    EXPECT_EQ(on_link->received, on_link->sent);
    EXPECT_EQ(result.reports[0].link_bytes, on_link->sent);
    EXPECT_EQ(result.reports[0].received_bytes, on_link->received);
  }
}

/// Messages of `inner`. Counts receives into memory from which a message may still be leaving: its request was not seen to be done.
class Watching final : public Communicator {
 public:
  explicit Watching(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<Watching>(inner_->duplicate()); }
  std::unique_ptr<Communicator> split(int, int) override { return nullptr; }
  std::string transport() const override { return "watched"; }
  bool supports(DType dtype, ReduceOp op) const override { return inner_->supports(dtype, op); }
  RequestPtr all_reduce(const void*, void*, std::int64_t, DType, ReduceOp) override { throw UsageError("not watched"); }
  RequestPtr reduce_scatter(const void*, void*, std::int64_t, DType, ReduceOp) override { throw UsageError("not watched"); }
  RequestPtr reduce(const void*, void*, std::int64_t, DType, ReduceOp, int) override { throw UsageError("not watched"); }
  RequestPtr all_gather(const void*, std::int64_t, void*) override { throw UsageError("not watched"); }
  RequestPtr all_gather_v(const void*, std::int64_t, void*, std::span<const std::int64_t>, std::span<const std::int64_t>) override { throw UsageError("not watched"); }
  RequestPtr all_to_all_v(const void*, std::span<const std::int64_t>, std::span<const std::int64_t>, void*, std::span<const std::int64_t>, std::span<const std::int64_t>) override {
    throw UsageError("not watched");
  }
  RequestPtr broadcast(void*, std::int64_t, int) override { throw UsageError("not watched"); }
  RequestPtr send(const void* data, std::int64_t bytes, int to, int tag) override {
    const auto* const first = static_cast<const std::byte*>(data);
    leaving.emplace_back(first, first + bytes);
    return std::make_unique<Leaving>(inner_->send(data, bytes, to, tag), std::prev(leaving.end()));
  }
  RequestPtr receive(void* data, std::int64_t bytes, int from, int tag, std::int64_t* received) override {
    const auto* const first = static_cast<const std::byte*>(data);
    for (const auto& [begin, end] : leaving) overlaps += first < end && begin < first + bytes ? 1 : 0;
    return inner_->receive(data, bytes, from, tag, received);
  }
  void barrier() override { inner_->barrier(); }

  static inline int overlaps = 0;

 private:
  using Memories = std::list<std::pair<const std::byte*, const std::byte*>>;
  static inline Memories leaving;
  class Leaving final : public Request {
   public:
    Leaving(RequestPtr send, Memories::iterator memory) : send_(std::move(send)), memory_(memory) {}
    ~Leaving() override {
      if (!done_) leaving.erase(memory_);
    }
    bool test() override {
      if (done_ || !send_->test()) return done_;
      leaving.erase(memory_);
      return done_ = true;
    }

   private:
    RequestPtr send_;
    Memories::iterator memory_;
    bool done_ = false;
  };
  std::unique_ptr<Communicator> inner_;
};

// Sums of even and odd steps take turns in two places, and steps of blocks without rows are passed over: a block may come next to where another has just left from, and
// one of a mebibyte has not left when its send has begun.
TEST(OverlappedBlocks, NoBlockArrivesWhereOneIsStillLeavingFrom) {
  const int n = world().size(), me = world().rank();
  constexpr std::int64_t columns = 1 << 18;
  Watching group(world().duplicate());
  Channel channel(group, options_of("test_watched", true));
  for (std::int64_t rows = 1; rows < n; ++rows) {
    const Shape shape{rows, columns}, part{shard_rows(rows, me, n).count, columns};
    const auto input_of = [&](int rank) { return integer_input(shape.elements(), "blocks", rank); };
    const Floats in = input_of(me);
    Floats out(static_cast<std::size_t>(part.elements())), expected(out.size(), 0.0f);
    for (int r = 0; r < n; ++r) {
      const Floats other = input_of(r);
      for (std::size_t i = 0; i < out.size(); ++i) expected[i] += other[static_cast<std::size_t>(shard_rows(rows, me, n).first * columns) + i];
    }
    for (float& sum : expected) sum *= 1.0f / static_cast<float>(n);
    Watching::overlaps = 0;
    channel.reduce_scatter({in.data(), shape}, {out.data(), part}, MessageKey{.tensor = hash_name("w"), .step = rows}).wait();
    EXPECT_EQ(Watching::overlaps, 0) << rows << " rows, rank " << me;
    EXPECT_TRUE(out == expected) << rows << " rows, rank " << me;
  }
}

// An operation has words of its own (its state, requests, lanes of its rounds, a list of elements that a sketch could not resolve), far fewer bytes than its tensor; buffers of messages are those of the
// first steps.
TEST(OverlappedBlocks, AllocateNothingOfAMessagesSizeOnceTheyHaveRun) {
  constexpr std::size_t words = 61 * 1000 * sizeof(float) / 16;
  const int n = world().size();
  for (const char* codec : {"sketch", "sketch:target=0.9,index_bits=4+ef", "cast", "cast:to=bf16+ef", "randomk:fraction=0.3,values=f32+ef"}) {
    const Shape shape{61, 1000};
    Channel channel(world(), options_of(codec, true));
    Floats in(static_cast<std::size_t>(shape.elements())), out(static_cast<std::size_t>(shard_rows(61, world().rank(), n).count * 1000));
    const Shape part{shard_rows(61, world().rank(), n).count, 1000};
    MessageKey key;
    key.tensor = hash_name("w");
    const auto step = [&] {
      const Random random(7, mix_stream(static_cast<std::uint64_t>(key.step), static_cast<std::uint64_t>(world().rank())));
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(random.normal(i));
      channel.reduce_scatter({in.data(), shape}, {out.data(), part}, key).wait();
      ++key.step;
    };
    testing::largest_allocation = 0;
    step();
    if (n > 1) {
      EXPECT_GT(testing::largest_allocation, words) << codec << ": the first one makes the buffers";
    }
    step();
    const std::int64_t held = buffer_bytes();
    reset_buffer_bytes_peak();
    testing::largest_allocation = 0;
    for (int s = 0; s < 5; ++s) step();
    EXPECT_LT(testing::largest_allocation, words) << codec;
    EXPECT_EQ(buffer_bytes_peak(), held) << codec;
  }
}

// Sections of timed compute are told apart by their place in the operation.
TEST(OverlappedBlocks, CanBeReplayed) {
  const Shape shape{61, 1000};
  const Shape part{shard_rows(61, world().rank(), world().size()).count, 1000};
  Channel channel(world(), options_of("sketch+ef", true));
  Floats in(static_cast<std::size_t>(shape.elements()), 1.5f), out(static_cast<std::size_t>(part.elements()));
  MessageKey key;
  const auto scatter = [&] { return OperationReport(channel.reduce_scatter({in.data(), shape}, {out.data(), part}, key).wait()); };
  const OperationReport real = scatter();
  for (const ComputeMode mode : {ComputeMode::serial, ComputeMode::replay}) {
    channel.set_compute(mode);
    const OperationReport report = scatter();
    EXPECT_EQ(report.link_bytes, real.link_bytes);
    EXPECT_EQ(report.received_bytes, real.received_bytes);
    EXPECT_EQ(report.payload_bytes, real.payload_bytes);
  }
}

}  // namespace
}  // namespace thinwire
