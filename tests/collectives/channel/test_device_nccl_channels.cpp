// labels: mpi
// ranks: 2,3
// timeout: 120
// devices: cuda, emulated-each, lazy-each
// Channels over NCCL, one device per rank, against the same channels on the host.
#include <map>

#include "collectives/communicator/device_communicator.h"
#include "tests/collectives/device_world.h"

namespace thinwire {
namespace {

using namespace testing;

class NcclChannel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_unavailable(DeviceKind::cuda); !why.empty()) GTEST_SKIP() << why;
    if (device_count() < world().size()) GTEST_SKIP() << "NCCL needs a device for each of " << world().size() << " ranks, here are " << device_count();
  }
};

TEST_F(NcclChannel, EveryOperationGivesWhatTheHostGives) {
  const OnDevice here;
  const auto nccl = make_device_communicator(world(), test_device());
  ASSERT_EQ(nccl->transport(), "NCCL");
  for (const ChannelOptions& options :
       {ChannelOptions{}, ChannelOptions{.comm_dtype = DType::bf16, .average = true},
        ChannelOptions{.traffic = TrafficClass::dp_gradient, .codec = "topk:fraction=0.2+ef", .protocol = Protocol::gather},
        ChannelOptions{.traffic = TrafficClass::dp_gradient, .codec = "quantize:bits=4", .protocol = Protocol::two_shot},
        ChannelOptions{.traffic = TrafficClass::dp_gradient, .codec = "powersgd:rank=2"},
        ChannelOptions{.traffic = TrafficClass::pp_forward, .codec = "cast:to=bf16"}}) {
    Channel device(*nccl, options);
    const PlacementScope on_the_host(Device{});
    Channel host(world(), options);
    const bool messages = options.traffic == TrafficClass::pp_forward;
    for (int step = 0; step < 2; ++step)
      for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::reduce, Kind::exchange}) {
        if (messages && kind != Kind::exchange) continue;
        SCOPED_TRACE(options.codec + ", " + name_of(kind));
        const MessageKey key = key_of(name_of(kind).c_str(), step);
        Tensor out(Device{});
        {
          const OnDevice scope;
          out = run_kind(device, kind, {9, 6}, key, "nccl");
        }
        const Tensor expected = run_kind(host, kind, {9, 6}, key, "nccl");
        // NCCL adds in an order of its own, 16-bit types in 16 bits.
        EXPECT_LT(relative_l2(floats_of(out), floats_of(expected)), options.comm_dtype == DType::f32 ? 1e-5 : 2e-2);
      }
  }
}

TEST_F(NcclChannel, RanksInARingMayAllSendBeforeAnyReceives) {
  const OnDevice here;
  const auto nccl = make_device_communicator(world(), test_device());
  Channel channel(*nccl, {.traffic = TrafficClass::pp_forward, .codec = "none", .comm_dtype = DType::f32});
  const int n = world().size(), me = world().rank();
  const std::vector<float> mine(5000, static_cast<float>(me));
  const Tensor x = placed(mine, Shape{5000});
  Tensor out(Shape{5000});
  for (int turn = 0; turn < 3; ++turn) {
    Operation sent = channel.send(x.view(), (me + 1) % n, key_of("ring", turn));
    for (int poll = 0; poll < 20; ++poll) sent.test();  // started alone: nobody knows yet that a receive follows
    Operation received = channel.receive(out.view(), (me + n - 1) % n, key_of("ring", turn));
    received.wait();
    sent.wait();
    EXPECT_EQ(floats_of(out), std::vector<float>(5000, static_cast<float>((me + n - 1) % n)));
  }
}

TEST_F(NcclChannel, OurOwnRingAddsOnTheHostAndIsRefused) {
  const OnDevice here;
  const auto nccl = make_device_communicator(world(), test_device());
  EXPECT_THROW(Channel(*nccl, {.algorithm = DenseAlgorithm::ring}), UsageError);
  EXPECT_TRUE(devices_of_their_own(world(), test_device()));
  // A channel that is free to choose takes NCCL, but for the ring.
  EXPECT_EQ(Channel(world(), {}).communicator().transport(), "NCCL");
  Channel ring(world(), {.comm_dtype = DType::f32, .algorithm = DenseAlgorithm::ring});
  EXPECT_EQ(ring.communicator().transport(), "MPI, staged through page-locked memory");
  const Tensor sum = run_kind(ring, Kind::all_reduce, {7, 3}, key_of("ring"), "ring");
  EXPECT_TRUE(equal_on_all_ranks(bytes_of(sum).data(), static_cast<std::int64_t>(sum.bytes())));
}

}  // namespace
}  // namespace thinwire
