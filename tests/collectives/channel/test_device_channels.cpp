// labels: mpi
// ranks: 1,2,3,4
// timeout: 120
// slow: n2
// devices: cuda, emulated, lazy
// Channels whose tensors lie on a device, against the same channels on host tensors.
#include <algorithm>
#include <cstdlib>

#include "collectives/communicator/device_communicator.h"
#include "collectives/link/emulated_network.h"
#include "core/process/trace.h"
#include "tests/collectives/device_aware_ranks.h"

namespace thinwire {
namespace {

using namespace testing;

class DeviceChannel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_unavailable(DeviceKind::cuda); !why.empty()) GTEST_SKIP() << why;
  }
};
using DeviceDenseChannel = DeviceChannel;

std::string text_of(Kind kind, DType wire, DenseAlgorithm algorithm, bool average, Shape shape) {
  return name_of(kind) + " " + std::string(name_of(wire)) + " " + name_of(algorithm) + (average ? " mean " : " sum ") + shape.to_string();
}

TEST_F(DeviceDenseChannel, EveryOperationGivesTheHostsBits) {
  for (const DType wire : {DType::f16, DType::bf16, DType::f32})
    for (const DenseAlgorithm algorithm : {DenseAlgorithm::library, DenseAlgorithm::ring})
      for (const bool average : {false, true}) {
        ChannelOptions options;
        options.comm_dtype = wire;
        options.algorithm = algorithm;
        options.average = average;
        Channel host(world(), options);
        const OnDevice here;
        Channel device(world(), options);
        for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::reduce, Kind::exchange})
          for (const Shape shape : {Shape{1, 1}, Shape{13, 7}, Shape{64, 48}}) {
            SCOPED_TRACE(text_of(kind, wire, algorithm, average, shape));
            host.meter().reset();
            device.meter().reset();
            Tensor expected(Device{});
            {
              const PlacementScope on_the_host(Device{});
              expected = run_kind(host, kind, shape, key_of("dense"), "dense");
            }
            const Tensor out = run_kind(device, kind, shape, key_of("dense"), "dense");
            EXPECT_EQ(out.device(), test_device());
            EXPECT_EQ(bytes_of(out), bytes_of(expected));
            EXPECT_EQ(device.meter().total().link_bytes, host.meter().total().link_bytes);
            EXPECT_EQ(device.meter().total().payload_bytes, host.meter().total().payload_bytes);
            if (kind != Kind::exchange) {
              EXPECT_STREQ(device.meter().last().algorithm, host.meter().last().algorithm);
            }
          }
      }
}

TEST_F(DeviceDenseChannel, TensorsInTheWireTypeTravelAsTheyAre) {
  ChannelOptions options;
  options.comm_dtype = DType::bf16;
  Channel host(world(), options);
  const OnDevice here;
  Channel device(world(), options);
  for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::reduce, Kind::exchange}) {
    SCOPED_TRACE(name_of(kind));
    Tensor expected(Device{});
    {
      const PlacementScope on_the_host(Device{});
      expected = run_kind(host, kind, {11, 6}, key_of("wire"), "wire", DType::bf16);
    }
    EXPECT_EQ(bytes_of(run_kind(device, kind, {11, 6}, key_of("wire"), "wire", DType::bf16)), bytes_of(expected));
  }
}

TEST_F(DeviceDenseChannel, InPlaceAndSeveralOperationsInFlightFollowTheComputeStream) {
  const OnDevice here;
  ChannelOptions options;
  options.comm_dtype = DType::f32;
  Channel first(world(), options), second(world(), options);
  const int n = world().size();
  std::vector<std::vector<float>> ones(4, std::vector<float>(1000));
  std::vector<Tensor> tensors;
  std::vector<Operation> pending;
  for (std::size_t i = 0; i < ones.size(); ++i) {
    std::fill(ones[i].begin(), ones[i].end(), static_cast<float>(i + 1));
    tensors.push_back(placed(ones[i], Shape{1000}));
    // Queued behind the copy on the compute stream, which nobody has waited for.
    MessageKey key = key_of("flight", static_cast<std::int64_t>(i));
    pending.push_back((i % 2 == 0 ? first : second).all_reduce(tensors[i].view(), tensors[i].view(), key));
  }
  for (std::size_t i = pending.size(); i-- > 0;) {
    pending[i].wait();
    scale_values(tensors[i].view(), tensors[i].view(), 2.0f);  // behind the operation's end
  }
  for (std::size_t i = 0; i < ones.size(); ++i) EXPECT_EQ(floats_of(tensors[i]), std::vector<float>(1000, static_cast<float>(2 * n * static_cast<int>(i + 1))));
}

TEST_F(DeviceDenseChannel, OverAnEmulatedNetworkToo) {
  auto network = make_emulated_communicator(world().duplicate(), EmulatedLink::parse("emulated:10gbit,latency=20us"));
  ChannelOptions options;
  const OnDevice here;
  Channel device(*network, options);
  EXPECT_EQ(device.communicator().transport(), "emulated network, staged through page-locked memory");
  for (const Kind kind : {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::reduce, Kind::exchange}) {
    SCOPED_TRACE(name_of(kind));
    Tensor expected(Device{});
    {
      const PlacementScope on_the_host(Device{});
      Channel host(*network, options);
      expected = run_kind(host, kind, {9, 5}, key_of("net"), "net");
    }
    EXPECT_EQ(bytes_of(run_kind(device, kind, {9, 5}, key_of("net"), "net")), bytes_of(expected));
  }
}

TEST_F(DeviceDenseChannel, ACudaAwareLibraryGetsDeviceAddressesButForSumsIn16Bits) {
  const OnDevice here;
  auto owned = std::make_unique<AwareRanks>(world().duplicate());
  AwareRanks& aware = *owned;
  StagingCommunicator ranks(std::move(owned), test_device());
  EXPECT_EQ(ranks.transport(), "played MPI, CUDA-aware");
  const int n = world().size(), me = world().rank();
  if (n == 1) return;  // nothing travels
  const std::int64_t count = 5 * n;
  const auto x = integer_input(count, "aware", me);
  // Queued on the compute stream and not waited for.
  const Tensor in = placed(x, Shape{count});
  Tensor sum(Shape{count}), shard(Shape{5}), all(Shape{count}), told(Shape{count});
  copy_values(told.view(), in.view());
  const auto* from = in.view().data();
  std::vector<RequestPtr> pending;
  pending.push_back(ranks.all_reduce(from, sum.view().data(), count, DType::f32, ReduceOp::sum));
  pending.push_back(ranks.reduce_scatter(from, shard.view().data(), 5, DType::f32, ReduceOp::sum));
  pending.push_back(ranks.all_gather(from, 20, all.view().data()));
  pending.push_back(ranks.broadcast(told.view().data(), count * 4, n - 1));
  for (RequestPtr& request : pending) request->wait();
  EXPECT_EQ(aware.direct_calls, 4);
  Tensor half(Shape{count}, DType::f16), half_sum(Shape{count}, DType::f16), wide(Shape{count});
  convert_values(from, DType::f32, half.view().data(), DType::f16, count);
  ranks.all_reduce(half.view().data(), half_sum.view().data(), count, DType::f16, ReduceOp::sum)->wait();
  EXPECT_EQ(aware.direct_calls, 4);
  convert_values(half_sum.view().data(), DType::f16, wide.view().data(), DType::f32, count);
  Tensor came(Shape{count});
  std::int64_t bytes = 0;
  RequestPtr out = ranks.send(from, count * 4, (me + 1) % n, 7), arrival = ranks.receive(came.view().data(), count * 4, (me + n - 1) % n, 7, &bytes);
  arrival->wait();
  out->wait();
  EXPECT_EQ(bytes, count * 4);
  std::vector<float> expected(x.size());
  world().all_reduce(x.data(), expected.data(), count, DType::f32, ReduceOp::sum)->wait();
  EXPECT_EQ(floats_of(sum), expected);
  EXPECT_EQ(floats_of(wide), expected);
  EXPECT_EQ(floats_of(shard), std::vector<float>(expected.begin() + 5 * me, expected.begin() + 5 * (me + 1)));
  EXPECT_EQ(floats_of(told), integer_input(count, "aware", n - 1));
  EXPECT_EQ(floats_of(came), integer_input(count, "aware", (me + n - 1) % n));
  for (int r = 0; r < n; ++r)
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(floats_of(all)[static_cast<std::size_t>(5 * r + i)], integer_input(count, "aware", r)[static_cast<std::size_t>(i)]);
}

TEST_F(DeviceDenseChannel, RanksChooseOneTransportTogether) {
  EXPECT_EQ(devices_of_their_own(world(), test_device()), device_count() >= world().size());
  const auto chosen = make_device_communicator(world(), test_device());
  EXPECT_TRUE(chosen->serves(test_device()));
  EXPECT_FALSE(chosen->serves(Device{}));
  EXPECT_TRUE(chosen->host_side().serves(Device{}));
  if (world().size() > 1) {
    EXPECT_EQ(chosen->transport(), "MPI, staged through page-locked memory");
  }
  auto network = make_emulated_communicator(world().duplicate(), EmulatedLink::parse("emulated:10gbit"));
  EXPECT_EQ(make_device_communicator(*network, test_device())->transport(), "emulated network, staged through page-locked memory");
  EXPECT_EQ(make_device_communicator(world(), Device{})->transport(), "MPI");
  if (world().size() > 1) {
    setenv("THINWIRE_DEVICE_TRANSPORT", "nccl", 1);
    EXPECT_THROW(make_device_communicator(*network, test_device()), EnvironmentError);
  }
  setenv("THINWIRE_DEVICE_TRANSPORT", "telepathy", 1);
  EXPECT_THROW(make_device_communicator(world(), test_device()), UsageError);
  unsetenv("THINWIRE_DEVICE_TRANSPORT");
  const OnDevice here;
  Channel device(*chosen, ChannelOptions{});
  const Tensor sum = run_kind(device, Kind::all_reduce, {3, 2}, key_of("chosen"), "chosen");
  EXPECT_EQ(sum.device(), test_device());
}

TEST_F(DeviceDenseChannel, TensorsElsewhereAndCallsFromElsewhereAreUsageErrorsThatNameBoth) {
  const auto message_of = [](const auto& body) {
    try {
      body();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  Tensor on_the_host(Shape{4});
  ChannelOptions options;
  Channel host(world(), options);
  const OnDevice here;
  Channel device(world(), options);
  Tensor on_the_device(Shape{4});
  const std::string wrong = message_of([&] { device.all_reduce(on_the_host.view(), on_the_device.view(), key_of("x")); });
  EXPECT_NE(wrong.find("lie on " + name_of(test_device()) + ", this one on host"), std::string::npos) << wrong;
  const std::string other = message_of([&] { host.all_reduce(on_the_device.view(), on_the_host.view(), key_of("x")); });
  EXPECT_NE(other.find("lie on host, this one on " + name_of(test_device())), std::string::npos) << other;
  const PlacementScope back(Device{});
  const std::string caller = message_of([&] { device.all_reduce(on_the_device.view(), on_the_device.view(), key_of("x")); });
  EXPECT_NE(caller.find("was opened on " + name_of(test_device()) + ", the calling thread computes on host"), std::string::npos) << caller;
}

TEST_F(DeviceDenseChannel, HostChannelsWorkUnderADevicePlacement) {
  ChannelOptions options;
  options.average = true;
  Channel host(world(), options);
  const OnDevice here;
  Tensor x(Shape{5}, DType::f32, Device{});
  for (float& value : x.as<float>()) value = static_cast<float>(world().rank());
  host.all_reduce(x.view(), x.view(), key_of("host")).wait();
  EXPECT_FLOAT_EQ(x.as<float>()[4], static_cast<float>(world().size() - 1) / 2);
}

TEST_F(DeviceDenseChannel, KeptResultsComeBackWithoutCommunication) {
  ChannelOptions options;
  options.keep_for_recompute = true;
  const OnDevice here;
  Channel device(world(), options);
  const Tensor first = run_kind(device, Kind::all_reduce, {6, 3}, key_of("kept"), "kept");
  Tensor again(Shape{6, 3});
  again.fill_zero();
  device.meter().reset();
  device.all_reduce(first.view(), again.view(), key_of("kept").with_pass(Pass::recompute)).wait();
  EXPECT_EQ(bytes_of(again), bytes_of(first));
  EXPECT_EQ(device.meter().operations(), 1);
  EXPECT_EQ(device.meter().total().link_bytes, 0);
  EXPECT_EQ(device.meter().total().total_us, 0);
  EXPECT_THROW(device.all_reduce(first.view(), again.view(), key_of("kept").with_pass(Pass::recompute)), UsageError);
}

TEST_F(DeviceDenseChannel, TimesComeFromEventsWhenTheMeterIsRead) {
  const OnDevice here;
  Channel device(world(), ChannelOptions{});
  Trace::start();
  for (int step = 0; step < 3; ++step) run_kind(device, Kind::all_reduce, {40, 30}, key_of("timed", step), "timed");
  const std::vector<TraceSpan> spans = Trace::stop();
  const std::int64_t now = now_ns();
  const OperationReport total = device.meter().total();
  EXPECT_EQ(device.meter().operations(), 3);
  EXPECT_GT(total.total_us, 0);
  EXPECT_LE(total.encode_us + total.transfer_us + total.decode_us, total.total_us * 1.001 + 1);
  int transfers = 0;
  for (const TraceSpan& span : spans) {
    EXPECT_LE(span.begin_ns, span.end_ns);
    EXPECT_LT(std::abs(now - span.end_ns), 60'000'000'000);
    transfers += span.category == TraceCategory::transfer;
  }
  EXPECT_EQ(transfers, 3);
  EXPECT_TRUE(std::is_sorted(spans.begin(), spans.end(), [](const TraceSpan& a, const TraceSpan& b) { return a.end_ns < b.end_ns; }));
}

TEST_F(DeviceDenseChannel, TimedComputeAndOmittedOperations) {
  const OnDevice here;
  Channel device(world(), ChannelOptions{});
  EXPECT_THROW(device.set_compute(ComputeMode::serial), UsageError);
  EXPECT_THROW(device.set_compute(ComputeMode::replay), UsageError);
  device.set_compute(ComputeMode::real);
  device.omit(true);
  run_kind(device, Kind::all_reduce, {3, 3}, key_of("omitted"), "omitted");
  run_kind(device, Kind::exchange, {3, 3}, key_of("omitted"), "omitted");
  EXPECT_EQ(device.meter().operations(), 0);
}

TEST_F(DeviceDenseChannel, MasksOfTheBackwardPassAreCopiesOrMeans) {
  const OnDevice here;
  ChannelOptions options;
  options.traffic = TrafficClass::tp_forward;
  options.average = true;
  Channel device(world(), options);
  const std::vector<float> ones(12, 1.0f);
  const Tensor gradient = placed(ones, Shape{4, 3});
  Tensor out(Shape{4, 3});
  device.reduction_backward(gradient.view(), out.view(), key_of("mean"));
  EXPECT_EQ(floats_of(out), std::vector<float>(12, 1.0f / static_cast<float>(world().size())));
}

}  // namespace
}  // namespace thinwire
