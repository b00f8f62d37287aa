// labels: mpi
// ranks: 2,4,8
// timeout: 120
// The emulated link: results are those of the machine's own collectives, and no message arrives before the network's arithmetic says.
#include <cstring>
#include <map>
#include <numeric>

#include "collectives/channel/channel.h"
#include "collectives/link/counting_communicator.h"
#include "collectives/link/emulated_network.h"
#include "collectives/process/rank_clock.h"
#include "core/clock.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

std::unique_ptr<Communicator> emulated(const std::string& link) {
  return make_emulated_communicator(world().duplicate(), EmulatedLink::parse(link));
}

TEST(EmulatedLink, IsReadFromItsName) {
  const EmulatedLink link = EmulatedLink::parse("emulated:2.5gbit,latency=20us,node=2,inside=400mbit,inside_latency=1.5ms");
  EXPECT_DOUBLE_EQ(link.gbps, 2.5);
  EXPECT_DOUBLE_EQ(link.latency_us, 20);
  EXPECT_EQ(link.ranks_per_node, 2);
  EXPECT_DOUBLE_EQ(link.inside_gbps, 0.4);
  EXPECT_DOUBLE_EQ(link.inside_latency_us, 1500);
  EXPECT_EQ(link.frame_bytes, 0);
  EXPECT_EQ(EmulatedLink::parse("emulated:1gbit,frame=9000").frame_bytes, 9000);
  for (const char* wrong : {"netns:1gbit", "emulated:", "emulated:10", "emulated:10gbit,latency=2", "emulated:1gbit,node=0", "emulated:1gbit,node=2x",
                            "emulated:1gbit,inside=fast", "emulated:1gbit,frame=0", "emulated:1gbit,frame=9k", "emulated:1gbit,speed=2", "emulated:-1gbit", "emulated:nangbit", "emulated:1gbit,up=0mbit",
                            "emulated:1gbit,up=fast", "emulated:1gbit,up=1mbit,down=2mbit", "emulated:1gbit,up=1mbit,up=2mbit", "emulated:1gbit,meter=outbound", "emulated:1gbit,meter",
                            "emulated:1gbit,meter=inbound,up=1mbit", "emulated:1gbit,frame=9000,meter=inbound", "emulated:1gbit,node=2,inside=2gbit,meter=inbound"})
    EXPECT_THROW(EmulatedLink::parse(wrong), UsageError) << wrong;
}

TEST(EmulatedLink, TellsItsDirectionsApart) {
  const EmulatedLink both = EmulatedLink::parse("emulated:1gbit"), home = EmulatedLink::parse("emulated:200mbit,up=20mbit,latency=15ms"), server = EmulatedLink::parse("emulated:1gbit,down=100mbit");
  EXPECT_EQ(both.up_gbps(), both.down_gbps());
  EXPECT_EQ(both.meter, LinkMeter::cards);
  EXPECT_DOUBLE_EQ(home.up_gbps(), 0.02);
  EXPECT_DOUBLE_EQ(home.down_gbps(), 0.2);
  EXPECT_DOUBLE_EQ(server.up_gbps(), 1);
  EXPECT_DOUBLE_EQ(server.down_gbps(), 0.1);
  EXPECT_DOUBLE_EQ(home.slower_gbps(), 0.02);
  EXPECT_DOUBLE_EQ(server.slower_gbps(), 0.1);
  EXPECT_EQ(EmulatedLink::parse("emulated:200mbit,latency=50ms,meter=inbound").meter, LinkMeter::inbound);
}

void expect_the_librarys_results(Communicator* comm, std::initializer_list<std::int64_t> sizes) {
  const int n = comm->size(), me = comm->rank();
  for (const std::int64_t elements : sizes) {
    std::vector<std::int64_t> x(static_cast<std::size_t>(elements)), expected(x.size()), got(x.size(), -1);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::int64_t>(i) * 3 + me * 1000;
    world().all_reduce(x.data(), expected.data(), elements, DType::i64, ReduceOp::sum)->wait();
    comm->all_reduce(x.data(), got.data(), elements, DType::i64, ReduceOp::sum)->wait();
    EXPECT_EQ(got, expected);
    for (int root = 0; root < n; ++root) {
      std::vector<std::int64_t> sum(x.size(), -1), copy = me == root ? x : std::vector<std::int64_t>(x.size(), -1);
      comm->reduce(x.data(), sum.data(), elements, DType::i64, ReduceOp::sum, root)->wait();
      if (me == root) {
        EXPECT_EQ(sum, expected);
      }
      comm->broadcast(copy.data(), elements * 8, root)->wait();
      EXPECT_EQ(copy.back(), (elements - 1) * 3 + root * 1000);
    }
    std::vector<std::int64_t> all(x.size() * static_cast<std::size_t>(n), -1), all_expected(all.size());
    world().all_gather(x.data(), elements * 8, all_expected.data())->wait();
    comm->all_gather(x.data(), elements * 8, all.data())->wait();
    EXPECT_EQ(all, all_expected);
    std::vector<std::int64_t> scattered(x.size(), -1), scattered_expected(x.size());
    world().reduce_scatter(all.data(), scattered_expected.data(), elements, DType::i64, ReduceOp::max)->wait();
    comm->reduce_scatter(all.data(), scattered.data(), elements, DType::i64, ReduceOp::max)->wait();
    EXPECT_EQ(scattered, scattered_expected);
    // Rank r sends r + t + 1 elements to rank t.
    std::vector<std::int64_t> sends, places, takes, slots;
    std::int64_t out = 0, in = 0;
    for (int t = 0; t < n; ++t) {
      sends.push_back(8 * (me + t + 1));
      takes.push_back(8 * (me + t + 1));
      places.push_back(8 * out);
      slots.push_back(8 * in);
      out += me + t + 1;
      in += me + t + 1;
    }
    std::vector<std::int64_t> give(static_cast<std::size_t>(out), me), take(static_cast<std::size_t>(in), -1);
    comm->all_to_all_v(give.data(), sends, places, take.data(), takes, slots)->wait();
    for (int t = 0; t < n; ++t) EXPECT_EQ(take[static_cast<std::size_t>(slots[static_cast<std::size_t>(t)] / 8)], t);
  }
}

TEST(EmulatedCommunicator, ComputesWhatTheLibraryComputes) {
  expect_the_librarys_results(emulated("emulated:50gbit,latency=1us,node=2").get(), {1, 7, 1000, 70001});
  expect_the_librarys_results(emulated("emulated:50gbit,up=20gbit").get(), {7});
  expect_the_librarys_results(emulated("emulated:50gbit,latency=1us,meter=inbound").get(), {7, 1000});
}

// A machine can only be late, so lower bounds cannot fail by accident.
TEST(EmulatedCommunicator, DeliversNoMessageBeforeItsTime) {
  const auto comm = emulated("emulated:1gbit,latency=2ms");
  const int n = comm->size(), me = comm->rank();
  std::vector<std::byte> data(125000);  // one millisecond
  comm->barrier();
  std::int64_t start = now_ns();
  world().broadcast(&start, sizeof start, 0)->wait();  // the sender's: the barrier lets ranks go one by one
  if (me == 0) {
    const RequestPtr first = comm->send(data.data(), 125000, 1, 5), second = comm->send(data.data(), 125000, 1, 5);
    first->wait();
    EXPECT_GE(now_ns() - start, 1'000'000);
    second->wait();
    EXPECT_GE(now_ns() - start, 2'000'000);
  }
  if (me == 1) {
    comm->receive(data.data(), 125000, 0, 5)->wait();
    EXPECT_GE(now_ns() - start, 3'000'000);
    comm->receive(data.data(), 125000, 0, 5)->wait();
    EXPECT_GE(now_ns() - start, 4'000'000);
  }
  comm->barrier();
  // A ring moves 2 (n-1)/n of the tensor in 2 (n-1) messages with the latency of each.
  std::vector<float> x(250000 / 4), y(x.size());
  const std::int64_t begin = now_ns();
  comm->all_reduce(x.data(), y.data(), static_cast<std::int64_t>(x.size()), DType::f32, ReduceOp::sum)->wait();
  const double least_ms = 2.0 * (n - 1) * (2.0 / n + 2.0);
  EXPECT_GE(static_cast<double>(now_ns() - begin) * 1e-6, 0.8 * least_ms);
}

// Rank 1 finds the message four seconds late; what it sends back sets out as if it had not slept.
TEST(EmulatedCommunicator, ALateWakeUpDelaysNoMessage) {
  const auto comm = emulated("emulated:1gbit,latency=1ms");
  char byte = 0;
  comm->barrier();
  std::int64_t start = now_ns();
  world().broadcast(&start, sizeof start, 0)->wait();
  if (comm->rank() == 0) {
    comm->send(&byte, 1, 1, 5)->wait();
    comm->receive(&byte, 1, 1, 6)->wait();
    EXPECT_GE(now_ns() - start, 4'000'000'000);
    EXPECT_GE(RankClock::now_ns() - start, 2'000'000);
    EXPECT_LT(RankClock::now_ns() - start, 3'500'000'000);
  }
  if (comm->rank() == 1) {
    const RequestPtr message = comm->receive(&byte, 1, 0, 5);
    RankClock::idle();
    sleep_until_ns(start + 4'000'000'000);
    message->wait();
    comm->send(&byte, 1, 0, 6)->wait();
  }
  comm->barrier();
}

TEST(EmulatedCommunicator, AMeterDeliversNoMessageBeforeItIsPaid) {
  const auto comm = emulated("emulated:1gbit,latency=2ms,meter=inbound");
  const int me = comm->rank();
  std::vector<std::byte> data(125000);  // a millisecond
  comm->barrier();
  std::int64_t start = now_ns(), received = 0;
  world().broadcast(&start, sizeof start, 0)->wait();
  if (me == 0)
    for (int i = 0; i < 3; ++i) comm->send(data.data(), i == 1 ? 1000 : 125000, 1, 5)->wait();
  if (me == 1) {
    comm->receive(data.data(), 125000, 0, 5)->wait();
    EXPECT_GE(now_ns() - start, 3'000'000);
    comm->receive(data.data(), 125000, 0, 5, &received)->wait();
    EXPECT_EQ(received, 1000);
    EXPECT_GE(now_ns() - start, 5'008'000) << "the latency is paid again, though both were sent at once";
    comm->receive(data.data(), 125000, 0, 5)->wait();
    EXPECT_GE(now_ns() - start, 8'008'000);
  }
  comm->barrier();
}

// docs/papers/low_bandwidth_pipeline.md, "Worked examples".
TEST(EmulatedNetwork, AMeterBillsBytesAndLatencyOnOneWire) {
  EmulatedNetwork network(world(), EmulatedLink::parse("emulated:200mbit,latency=50ms,meter=inbound"));
  const std::int64_t ms = 1'000'000, now = now_ns(), bytes = 25000 - meter_header_bytes;
  // Nanoseconds are cut off.
  EXPECT_NEAR(static_cast<double>(network.billed_ns(bytes, now) - now), 51e6, 5);
  EXPECT_NEAR(static_cast<double>(network.billed_ns(bytes, now) - now), 102e6, 5) << "whoever sent it";
  EXPECT_NEAR(static_cast<double>(network.billed_ns(bytes, now + 200 * ms) - now), 251e6, 5) << "the wire was idle from 102 ms on, and gives nothing for it";
  EXPECT_NEAR(static_cast<double>(network.billed_ns(bytes, now) - now), 302e6, 5);
  const EmulatedNetwork::Times sent = network.reserve(0, 1, 1 << 30, now);
  EXPECT_EQ(sent.left_ns, now) << "the sender's card is free";
  world().barrier();
}

TEST(EmulatedNetwork, AHomeSendsSlowerThanItReceives) {
  EmulatedNetwork network(world(), EmulatedLink::parse("emulated:1gbit,up=250mbit,latency=10us"));
  if (world().rank() == 0) {
    const std::int64_t now = 1'000'000'000, ms = 1'000'000, millisecond = 125000;
    const auto first = network.reserve(0, 1, millisecond, now);
    EXPECT_EQ(first.left_ns, now + 4 * ms);
    EXPECT_EQ(first.arrival_ns, now + 4 * ms + 10'000) << "the last byte comes a latency after it left";
    if (world().size() >= 4) {
      // Three senders at a quarter of the receiver's rate: it is busy a millisecond for each, at the end of the four.
      EXPECT_EQ(network.reserve(2, 1, millisecond, now).arrival_ns, now + 5 * ms + 10'000);
      EXPECT_EQ(network.reserve(3, 1, millisecond, now + 4 * ms).arrival_ns, now + 8 * ms + 10'000) << "by then it is idle again";
    }
  }
  world().barrier();
  EmulatedNetwork slow_in(world(), EmulatedLink::parse("emulated:1gbit,down=250mbit,latency=10us"));
  if (world().rank() == 0) {
    const std::int64_t now = 1'000'000'000, ms = 1'000'000, millisecond = 125000;
    const auto first = slow_in.reserve(0, 1, millisecond, now);
    EXPECT_EQ(first.left_ns, now + ms);
    EXPECT_EQ(first.arrival_ns, now + 4 * ms + 10'000);
    EXPECT_EQ(slow_in.reserve(0, 1, millisecond, now).arrival_ns, now + 8 * ms + 10'000) << "it left after two milliseconds and waits for the receiver";
  }
  world().barrier();
}

TEST(EmulatedNetwork, SharesACardAmongTheRanksOfANodeAndNothingElse) {
  if (world().size() < 4) GTEST_SKIP() << "needs two nodes of two ranks";
  EmulatedNetwork network(world(), EmulatedLink::parse("emulated:1gbit,latency=10us,node=2,inside=100gbit,inside_latency=1us"));
  if (world().rank() == 0) {
    const std::int64_t now = 1'000'000'000, ms = 1'000'000;
    // Both ranks of node 0 send a millisecond's worth: the second waits for the first at the card of node 0.
    EXPECT_EQ(network.reserve(0, 2, 125000, now).arrival_ns, now + ms + 10'000);
    const auto second = network.reserve(1, 3, 125000, now);
    EXPECT_EQ(second.left_ns, now + 2 * ms);
    EXPECT_EQ(second.arrival_ns, now + 2 * ms + 10'000);
    // Inside a node nobody waits.
    EXPECT_EQ(network.reserve(0, 1, 125000, now).arrival_ns, now + 10'000 + 1000);
    // The other direction is free.
    EXPECT_EQ(network.reserve(2, 0, 125000, now).arrival_ns, now + ms + 10'000);
    // After a rest there is no credit: a card is a wire, not a bucket.
    EXPECT_EQ(network.reserve(0, 2, 125000, now + 50 * ms).arrival_ns, now + 51 * ms + 10'000);
  }
  world().barrier();
  if (world().size() >= 8 && world().rank() == 0) {
    // Incast: nodes 0 and 1 send to node 2, whose card lets one through after the other.
    const std::int64_t now = 5'000'000'000, ms = 1'000'000;
    EXPECT_EQ(network.reserve(0, 4, 125000, now).arrival_ns, now + ms + 10'000);
    EXPECT_EQ(network.reserve(2, 5, 125000, now).arrival_ns, now + 2 * ms + 10'000);
  }
  world().barrier();
}

// A message that waits for its sender's card must not keep others from a receiver that is idle until it comes.
TEST(EmulatedNetwork, ReceivesInTheGapsInFrontOfWhatIsExpected) {
  if (world().size() < 4) GTEST_SKIP() << "needs four nodes";
  EmulatedNetwork network(world(), EmulatedLink::parse("emulated:1gbit"));
  if (world().rank() == 0) {
    const std::int64_t now = 1'000'000'000, ms = 1'000'000, millisecond = 125000;
    EXPECT_EQ(network.reserve(0, 1, 4 * millisecond, now).arrival_ns, now + 4 * ms);
    EXPECT_EQ(network.reserve(0, 2, millisecond, now).arrival_ns, now + 5 * ms) << "behind the first on card 0, at node 2 from the fourth millisecond";
    EXPECT_EQ(network.reserve(3, 2, 2 * millisecond, now).arrival_ns, now + 2 * ms) << "node 2 is idle until then";
    EXPECT_EQ(network.reserve(1, 2, 3 * millisecond, now).arrival_ns, now + 8 * ms) << "no gap holds it";
    EXPECT_EQ(network.reserve(1, 2, millisecond, now).arrival_ns, now + 4 * ms) << "sent after the one before, it comes in the last free millisecond";
    // What is over makes room: many messages, none of them forgotten too early.
    std::int64_t last = 0;
    for (int i = 0; i < 500; ++i) last = network.reserve(3, 2, millisecond, now + 20 * ms).arrival_ns;
    EXPECT_EQ(last, now + 520 * ms);
  }
  world().barrier();
}

// A card remembers so many gaps and no more; what it forgets is lost time, never two messages at once.
TEST(EmulatedNetwork, ReceivesOneMessageAtATimeHoweverManyAreExpected) {
  if (world().size() < 4) GTEST_SKIP() << "needs four nodes";
  EmulatedNetwork network(world(), EmulatedLink::parse("emulated:1gbit,latency=10us"));
  const Random random(test_seed(), "messages");  // all ranks agree on the seed
  if (world().rank() == 0) {
    std::map<int, std::map<std::int64_t, std::int64_t>> cards;  // card -> begin -> end
    const std::int64_t now = now_ns();
    std::uint64_t draw = 0;
    const int last = world().size() - 1;
    for (int i = 0; i < 2000; ++i) {
      // What goes to another card holds the sender up and leaves a gap on this one.
      const int from = 1 + static_cast<int>(random.below(draw++, static_cast<std::uint64_t>(last - 1))), to = random.below(draw++, 2) == 0 ? 0 : last;
      const std::int64_t bytes = 1 + static_cast<std::int64_t>(random.below(draw++, 2000));
      const EmulatedNetwork::Times times = network.reserve(from, to, bytes, now);
      auto& busy = cards[to];
      const std::int64_t begin = times.arrival_ns - 8 * bytes;
      const auto behind = busy.lower_bound(begin);
      EXPECT_TRUE(behind == busy.end() || times.arrival_ns <= behind->first) << "message " << i;
      EXPECT_TRUE(behind == busy.begin() || std::prev(behind)->second <= begin) << "message " << i;
      busy[begin] = times.arrival_ns;
    }
  }
  world().barrier();
}

TEST(EmulatedNetwork, SmallMessagesGoBetweenTheFramesOfLongOnesAndTakeTheirTime) {
  EmulatedNetwork network(world(), EmulatedLink::parse("emulated:1gbit,latency=10us,frame=9000"));
  if (world().rank() == 0) {
    const std::int64_t now = 1'000'000'000;
    EXPECT_EQ(network.reserve(0, 1, 125000, now).left_ns, now + 1'000'000);
    EXPECT_EQ(network.reserve(0, 1, 1250, now).arrival_ns, now + 10'000 + 10'000) << "ten microseconds on the wire, ten of latency";
    EXPECT_EQ(network.reserve(0, 1, 125000, now).left_ns, now + 2'010'000);
    EXPECT_EQ(network.reserve(0, 1, 9001, now).left_ns, now + 2'010'000 + 72'008) << "longer than a frame: in turn";
  }
  world().barrier();
}

TEST(EmulatedNetwork, SmallMessagesWaitForEachOtherOnBothCards) {
  EmulatedNetwork network(world(), EmulatedLink::parse("emulated:1gbit,latency=10us,frame=9000"));
  if (world().rank() == 0 && world().size() > 2) {
    const std::int64_t now = 1'000'000'000, length = 10'000;  // of 1250 bytes
    for (int i = 1; i <= 5; ++i) {
      const auto [left, arrival] = network.reserve(0, 1, 1250, now);
      EXPECT_EQ(left, now + i * length) << "a card sends no faster than its rate";
      EXPECT_EQ(arrival, left + 10'000);
    }
    EXPECT_EQ(network.reserve(2, 1, 1250, now).left_ns, now + length) << "another card is free";
    EXPECT_EQ(network.reserve(2, 1, 1250, now).arrival_ns, now + 10'000 + 7 * length) << "a card receives no faster either";
    EXPECT_EQ(network.reserve(1, 2, 1250, now).arrival_ns, now + 10'000 + length) << "the other direction is free";
    EXPECT_EQ(network.reserve(0, 2, 125000, now).left_ns, now + 5 * length + 1'000'000) << "longer messages wait for what small ones take";
  }
  world().barrier();
}

TEST(CountingCommunicator, SeesEveryMessageOfTheCollectivesAboveIt) {
  const auto count = std::make_shared<LinkBytes>();
  const auto comm = make_emulated_communicator(make_counting_communicator(world().duplicate(), count), EmulatedLink{1e6, 0});
  const auto line = comm->split(0, comm->rank());
  const std::int64_t n = comm->size(), elements = 840;
  const auto counted = [&](const auto& body) {
    *count = {};
    body();
    const std::int64_t mine[2] = {count->sent, count->received};
    std::int64_t all[2];
    world().all_reduce(mine, all, 2, DType::i64, ReduceOp::sum)->wait();
    EXPECT_EQ(all[0], all[1]) << "what is sent is received";
    return all[1];
  };
  std::vector<float> x(static_cast<std::size_t>(elements), 1), y(x.size()), all(x.size() * static_cast<std::size_t>(n));
  EXPECT_EQ(counted([&] { line->all_reduce(x.data(), y.data(), elements, DType::f32, ReduceOp::sum)->wait(); }), 2 * (n - 1) * elements * 4);
  EXPECT_EQ(counted([&] { line->all_gather(x.data(), elements * 4, all.data())->wait(); }), n * (n - 1) * elements * 4);
  EXPECT_EQ(counted([&] { line->broadcast(x.data(), elements * 4, 1)->wait(); }), (n - 1) * elements * 4);
  EXPECT_EQ(counted([&] { comm->reduce(x.data(), y.data(), elements, DType::f32, ReduceOp::sum, 0)->wait(); }), (n - 1) * elements * 4);
}

TEST(EmulatedCommunicator, CarriesAChannel) {
  const auto comm = emulated("emulated:10gbit,latency=5us,node=2");
  Channel coded(*comm, {.traffic = TrafficClass::dp_gradient, .codec = "topk:fraction=0.1", .comm_dtype = DType::f32});
  Channel direct(world(), {.traffic = TrafficClass::dp_gradient, .codec = "topk:fraction=0.1", .comm_dtype = DType::f32});
  const auto x = normal_input(5000, "emulated", comm->rank());
  std::vector<float> a(x.size()), b(x.size());
  const Shape shape{50, 100};
  coded.all_reduce({x.data(), shape}, {a.data(), shape}, key_of("x")).wait();
  direct.all_reduce({x.data(), shape}, {b.data(), shape}, key_of("x")).wait();
  EXPECT_EQ(a, b);
}

TEST(EmulatedCommunicator, AnOmittedChannelWaitsForItsSenderAndForNothingElse) {
  const auto comm = emulated("emulated:0.01mbit");  // a message of the tensor would take an hour: waited for, it ends the test at its limit
  Channel channel(*comm, {.traffic = TrafficClass::pp_forward, .codec = "none", .comm_dtype = DType::f32});
  Channel sums(*comm, {.traffic = TrafficClass::dp_gradient, .codec = "powersgd:rank=2+ef", .comm_dtype = DType::f32});
  channel.omit(true);
  sums.omit(true);
  std::vector<float> x(1 << 20, 3), y(x.size(), 7);
  const Shape shape{1024, 1024};
  const int me = comm->rank();
  // One time for all, on the clock that ranks of one machine have in common.
  const std::int64_t mine = now_ns();
  std::int64_t start = 0;
  world().all_reduce(&mine, &start, 1, DType::i64, ReduceOp::max)->wait();
  if (me == 0) {
    sleep_until_ns(start + 200'000'000);
    channel.send({x.data(), shape}, 1, key_of("x")).wait();
  }
  if (me == 1) {
    channel.receive({y.data(), shape}, 0, key_of("x")).wait();
    EXPECT_GE(now_ns() - start, 200'000'000) << "the sender came 200 ms later";
  }
  sums.all_reduce({x.data(), shape}, {y.data(), shape}, key_of("y")).wait();
  EXPECT_EQ(y[5], 7) << "nothing arrives";
  EXPECT_EQ(channel.meter().operations() + sums.meter().operations(), 0);
}

}  // namespace
}  // namespace thinwire
