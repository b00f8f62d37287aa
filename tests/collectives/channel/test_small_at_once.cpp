// labels: mpi
// ranks: 2,3,4
// timeout: 240
// ChannelOptions::small_at_once: collectives of small tensors are under way together, and give the bits, the bytes and the memory of codecs that they give one after
// the other: every codec, by every protocol and with memories around it, over an emulated link whose latency keeps them on the way.
#include "collectives/link/emulated_network.h"
#include "tests/collectives/channel/played_rank.h"

namespace thinwire {
namespace {

using namespace testing;

/// A transfer ends when the test says so.
bool held = false;
class UntilLetGo final : public Request {
 public:
  bool test() override { return !held; }
};

class Holding final : public Played {
 public:
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<Holding>(); }
  RequestPtr all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op) override {
    (void)Played::all_reduce(send, receive, elements, dtype, op);
    return std::make_unique<UntilLetGo>();
  }
};

/// How many have begun when sums of `tensors` (name and rows of 64 numbers) were called and none has ended.
int begun(int small_at_once, const std::vector<std::pair<std::string, std::int64_t>>& tensors, const std::string& codec = "powersgd:rank=2") {
  play = Play{{}, 0, 0};
  held = true;
  Holding group;
  Channel channel(group, {.traffic = TrafficClass::dp_gradient, .codec = codec, .comm_dtype = DType::f32, .small_at_once = small_at_once});
  std::vector<Tensor> values;
  std::vector<Operation> sums;
  for (const auto& [name, rows] : tensors) {
    values.emplace_back(Shape{rows, 64}).fill_zero();
    sums.push_back(channel.all_reduce(std::as_const(values.back()).view(), values.back().view(), MessageKey{.tensor = hash_name(name)}));
  }
  const auto count = static_cast<int>(play.begun.size());
  held = false;
  for (Operation& sum : sums) sum.wait();
  return count;
}

TEST(SmallAtOnce, BeginBesideEachOther) {
  const std::vector<std::pair<std::string, std::int64_t>> five = {{"a", 8}, {"b", 16}, {"c", 8}, {"d", 24}, {"e", 8}};
  EXPECT_EQ(begun(0, five), 1);
  EXPECT_EQ(begun(3, five), 3);
  EXPECT_EQ(begun(8, five), 5);
  EXPECT_EQ(begun(3, five, "none"), 3) << "dense ones, too";
}

TEST(SmallAtOnce, BesideOneLargeTensor) {
  const std::int64_t large = small_bytes / 64 / 4 + 1;
  EXPECT_EQ(begun(8, {{"a", 8}, {"b", large}, {"c", 8}}), 3);
  EXPECT_EQ(begun(8, {{"a", large}, {"b", 8}, {"c", large}, {"d", 8}}), 2) << "two large ones are never, and they begin in order";
}

TEST(SmallAtOnce, NotBesideTheSameTensor) {
  EXPECT_EQ(begun(8, {{"a", 8}, {"b", 8}, {"a", 8}, {"c", 8}}), 2) << "what a codec remembers of it is what the message before left";
}

/// What several steps of sums, scattered sums and gathers leave.
struct Left {
  std::vector<std::vector<float>> results;
  std::vector<std::byte> state;
  std::int64_t operations = 0, link_bytes = 0, payload_bytes = 0;
};

Left run(Communicator& group, const std::string& codec, Protocol protocol, int small_at_once, bool sums_alone) {
  Channel channel(group, {.traffic = TrafficClass::dp_gradient, .codec = codec, .protocol = protocol, .comm_dtype = DType::f32, .average = true, .small_at_once = small_at_once});
  const std::vector<std::int64_t> rows = {7, 16, 40, 5, 16, 12, 9, 16};
  constexpr std::int64_t columns = 32;
  Left left;
  for (std::int64_t step = 0; step < 3; ++step) {
    std::vector<Operation> under_way;
    left.results.reserve(100);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string name = "tensor " + std::to_string(i);
      const MessageKey key{.tensor = hash_name(name), .step = step};
      const int what = sums_alone ? 0 : static_cast<int>(i % 3);
      const Shape whole{rows[i], columns}, block{shard_rows(rows[i], group.rank(), group.size()).count, columns};
      const Shape &in = what == 2 ? block : whole, &out = what == 1 ? block : whole;
      const std::vector<float> values = normal_input(in.elements(), (name + std::to_string(step)).c_str(), group.rank());
      left.results.push_back(values);  // stays there until the end
      const ConstTensorView from(left.results.back().data(), in);
      std::vector<float>& to = left.results.emplace_back(static_cast<std::size_t>(out.elements()));
      const TensorView result(to.data(), out);
      under_way.push_back(what == 0 ? channel.all_reduce(from, result, key) : what == 1 ? channel.reduce_scatter(from, result, key) : channel.all_gather(from, result, key));
    }
    // Ranks wait in different orders.
    for (std::size_t i = 0; i < under_way.size(); ++i) under_way[(i + static_cast<std::size_t>(group.rank()) * 3) % under_way.size()].wait();
  }
  left.state = channel.save_state();
  const Meter& meter = channel.meter();
  left.operations = meter.operations(), left.link_bytes = meter.total().link_bytes, left.payload_bytes = meter.total().payload_bytes;
  return left;
}

class EveryCodec : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryCodec, GivesTogetherWhatItGivesOneByOne) {
  const auto link = make_emulated_communicator(world().duplicate(), EmulatedLink::parse("emulated:10gbit,latency=200us"));
  for (const std::string around : {"", "+ef", "+ef21"}) {
    const std::string codec = GetParam() + around;
    const CodecTraits traits = make_codec(GetParam()).codec->traits();
    if (traits.needs_fit || traits.by_sample || traits.by_token || (traits.lossless && !around.empty())) continue;
    for (const Protocol protocol : {Protocol::rounds, Protocol::gather, Protocol::two_shot}) {
      if (protocol == Protocol::rounds ? traits.rounds == 0 : !traits.gather) continue;
      // Where the result is a rank's block alone, not every memory has what it needs.
      const bool sums_alone = !around.empty() || !traits.gather;
      std::unique_ptr<Left> alone, together;
      try {
        alone = std::make_unique<Left>(run(*link, codec, protocol, 0, sums_alone));
      } catch (const UsageError&) {
        continue;  // what does not go together is another test's matter
      }
      together = std::make_unique<Left>(run(*link, codec, protocol, 5, sums_alone));
      const std::string which = codec + " by " + name_of(protocol);
      EXPECT_EQ(alone->results, together->results) << which;
      EXPECT_EQ(alone->state, together->state) << which;
      EXPECT_EQ(alone->operations, together->operations) << which;
      EXPECT_EQ(alone->link_bytes, together->link_bytes) << which;
      EXPECT_EQ(alone->payload_bytes, together->payload_bytes) << which;
    }
  }
}

// Tensors of as many elements in another shape: a replay that took one for the other would send messages that the neighbour, which may have measured them in another
// order, does not expect.
TEST(SmallAtOnce, AreReplayedByTheirShapes) {
  const auto link = make_emulated_communicator(world().duplicate(), EmulatedLink::parse("emulated:10gbit,latency=200us"));
  Channel channel(*link, {.traffic = TrafficClass::dp_gradient, .codec = "powersgd:rank=2", .comm_dtype = DType::f32, .small_at_once = 4});
  const std::vector<Shape> shapes = {{8, 64}, {16, 32}, {32, 16}, {64, 8}};
  std::vector<Tensor> values;
  for (const Shape& shape : shapes) {
    values.emplace_back(shape);
    const std::vector<float> normal = normal_input(shape.elements(), "replayed", world().rank());
    std::ranges::copy(normal, values.back().as<float>().begin());
  }
  const auto step = [&](std::int64_t number) {
    std::vector<Operation> sums;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      sums.push_back(channel.all_reduce(std::as_const(values[i]).view(), values[i].view(), MessageKey{.tensor = 1 + i, .step = number}));
    std::vector<std::int64_t> payloads;
    for (Operation& sum : sums) payloads.push_back(sum.wait().payload_bytes);
    return payloads;
  };
  channel.set_compute(ComputeMode::serial);
  const std::vector<std::int64_t> measured = step(0);
  EXPECT_EQ(measured, (std::vector<std::int64_t>{2 * 72 * 4, 2 * 48 * 4, 2 * 48 * 4, 2 * 72 * 4}));
  channel.set_compute(ComputeMode::replay);
  for (std::int64_t number = 1; number < 6; ++number) EXPECT_EQ(step(number), measured);
}

std::vector<std::string> codecs() {
  std::vector<std::string> names;
  for (const CodecInfo* info : all_codecs()) names.push_back(info->name);
  for (const char* more : {"group:bits=4+hadamard", "sketch:index_bits=4", "sign:scale=none", "randomk:fraction=0.25+hadamard"}) names.push_back(more);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Registry, EveryCodec, ::testing::ValuesIn(codecs()));

}  // namespace
}  // namespace thinwire
