// labels: mpi
// ranks: 1,2,3
// timeout: 120
// EF21 in every operation of a channel: what is delivered closes in on the exact result of inputs that stand still, with equal bits on all ranks; what leaves its result
// on one rank alone is refused. Of slices other memories of what was sent are asked, too.
#include "tests/collectives/world.h"

#include <algorithm>

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t rows = 7, columns = 16, elements = rows * columns;
const Shape shape{rows, columns};
constexpr int steps = 40;

using Floats = std::vector<float>;

Channel open(const char* codec, Protocol protocol, TrafficClass traffic = TrafficClass::dp_gradient) {
  return Channel(world(), {.traffic = traffic, .codec = codec, .protocol = protocol, .comm_dtype = DType::f32});
}

Floats input(int rank) {
  const Random random(20261123, static_cast<std::uint64_t>(rank));
  Floats x(elements);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

Floats exact_sum() {
  Floats sum(elements, 0.0f);
  for (int r = 0; r < world().size(); ++r) {
    const Floats x = input(r);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
  }
  return sum;
}

double worst(const Floats& a, const Floats& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, static_cast<double>(std::fabs(a[i] - b[i])));
  return most;
}

void expect_equal_on_all_ranks(const Floats& mine) {
  Floats all(mine.size() * static_cast<std::size_t>(world().size()));
  world().all_gather(mine.data(), static_cast<std::int64_t>(mine.size() * sizeof(float)), all.data())->wait();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], mine[i % mine.size()]) << i;
}

struct Case {
  const char* codec;
  Protocol protocol;
};
const Case cases[] = {{"group:bits=4,group=32+ef21", Protocol::gather},   {"group:bits=4,group=32+hadamard:block=16+ef21", Protocol::two_shot},
                      {"group:bits=4,group=32+ef21", Protocol::two_shot}, {"randomk:fraction=0.4,values=f32+ef21", Protocol::rounds},
                      {"topk:fraction=0.4,values=f32+ef21", Protocol::gather}, {"powersgd:rank=3,wire=f32,min_ratio=1+ef21", Protocol::rounds},
                      {"powersgd:rank=3,wire=f32+ef21", Protocol::gather}, {"powersgd:rank=3,wire=f32+ef21", Protocol::two_shot}};

TEST(Ef21, SumsCloseInOnTheExactSum) {
  const Floats x = input(world().rank()), expected = exact_sum();
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.codec) + " " + name_of(c.protocol));
    Channel channel = open(c.codec, c.protocol);
    Floats out(elements);
    for (int step = 0; step < steps; ++step) channel.all_reduce({x.data(), shape}, {out.data(), shape}, key_of("sum", step)).wait();
    EXPECT_LT(worst(out, expected), 1e-3);
    expect_equal_on_all_ranks(out);
    EXPECT_LT(worst(x, input(world().rank())), 1e-9) << "the caller's tensor is untouched";
  }
}

// What is remembered of a slice, its second shot included, is no other slice's.
TEST(Ef21, SlicesOfATensorAreRememberedApart) {
  const int slices = 4 * world().size() + 1;
  for (const char* codec : {"group:bits=2,group=32+ef21", "group:bits=2,group=32+ef", "group:bits=2,group=32+loco", "topk:fraction=0.1,values=f32+ef"})
    for (const Protocol protocol : {Protocol::two_shot, Protocol::gather}) {
      Channel sliced = open(codec, protocol), apart = open(codec, protocol);
      for (int step = 0; step < 3; ++step)
        for (int s = 0; s < slices; ++s) {
          Floats x = input(world().rank()), one(elements), other(elements);
          for (float& v : x) v *= static_cast<float>(1 + s);
          sliced.all_reduce({x.data(), shape}, {one.data(), shape}, key_of("tensor", step).with_slice(s)).wait();
          apart.all_reduce({x.data(), shape}, {other.data(), shape}, key_of(("tensor " + std::to_string(s)).c_str(), step)).wait();
          ASSERT_EQ(worst(one, other), 0) << codec << " " << name_of(protocol) << ", slice " << s << ", step " << step;
        }
    }
}

TEST(Ef21, ShardsOfSumsCloseIn) {
  const int n = world().size(), me = world().rank();
  const Floats x = input(me), expected = exact_sum();
  for (const Case& c : cases) {
    if (std::string(c.codec).starts_with("powersgd")) continue;  // sums whole tensors
    SCOPED_TRACE(std::string(c.codec) + " " + name_of(c.protocol));
    Channel channel = open(c.codec, c.protocol, TrafficClass::grad_reduce_scatter);
    const RowBlock mine = shard_rows(rows, me, n);
    Floats out(static_cast<std::size_t>(mine.count * columns));
    for (int step = 0; step < steps; ++step) channel.reduce_scatter({x.data(), shape}, {out.data(), Shape{mine.count, columns}}, key_of("shard", step)).wait();
    EXPECT_LT(worst(out, Floats(expected.begin() + mine.first * columns, expected.begin() + (mine.first + mine.count) * columns)), 1e-3);
  }
}

TEST(Ef21, GathersAndBroadcastsCloseInAndTheOwnerHoldsWhatTheOthersDo) {
  const int n = world().size(), me = world().rank();
  const Floats whole = input(0);
  Channel channel = open("group:bits=4,group=32+ef21", Protocol::gather, TrafficClass::param_all_gather);
  const RowBlock mine = shard_rows(rows, me, n);
  Floats gathered(elements), sent(elements);
  for (int step = 0; step < steps; ++step) {
    channel.all_gather({whole.data() + mine.first * columns, Shape{mine.count, columns}}, {gathered.data(), shape}, key_of("weights", step)).wait();
    expect_equal_on_all_ranks(gathered);
    const int root = step % n;  // each root and its receivers have memory of their own
    sent = me == root ? whole : Floats(elements);
    channel.broadcast({sent.data(), shape}, root, key_of("broadcast", step)).wait();
    expect_equal_on_all_ranks(sent);
  }
  EXPECT_LT(worst(gathered, whole), 1e-4);
  EXPECT_LT(worst(sent, whole), 1e-4);
}

// Ranks that hold the same copy begin with it: the first message is the change alone, and what a tensor has begun with it keeps.
TEST(Ef21, GathersStartFromTheCopyThatAllRanksHold) {
  const int n = world().size(), me = world().rank();
  const Floats copy = input(0);
  Floats changed = copy;
  for (std::size_t i = 0; i < changed.size(); i += 5) changed[i] += 0.25f;
  const RowBlock mine = shard_rows(rows, me, n);
  const auto gather = [&](Channel& channel, const char* name, int step) {
    Floats gathered(elements);
    channel.all_gather({changed.data() + mine.first * columns, Shape{mine.count, columns}}, {gathered.data(), shape}, key_of(name, step)).wait();
    expect_equal_on_all_ranks(gathered);
    return gathered;
  };
  // A quarter of the elements is room for the changes, and not for the tensor.
  Channel channel = open("topk:fraction=0.25,values=f32+ef21", Protocol::gather, TrafficClass::param_all_gather);
  channel.start_gathers_from({copy.data(), shape}, key_of("started", 0));
  EXPECT_EQ(worst(gather(channel, "started", 0), changed), 0);
  channel.start_gathers_from({copy.data(), shape}, key_of("started", 0));
  EXPECT_EQ(worst(gather(channel, "started", 1), changed), 0) << "a second start is none";
  EXPECT_GT(worst(gather(channel, "from zero", 0), changed), 0.1);
  Channel bare = open("topk:fraction=0.25,values=f32", Protocol::gather, TrafficClass::param_all_gather);
  bare.start_gathers_from({copy.data(), shape}, key_of("nothing remembered", 0));
  EXPECT_GT(worst(gather(bare, "nothing remembered", 0), changed), 0.1);
}

TEST(Ef21, ASumForTheRootAloneIsRefused) {
  const Floats x = input(world().rank());
  Channel channel = open("group+ef21", Protocol::gather);
  Floats out(elements);
  EXPECT_THROW(channel.reduce({x.data(), shape}, {out.data(), shape}, 0, key_of("root", 0)).wait(), UsageError);
}

}  // namespace
}  // namespace thinwire
