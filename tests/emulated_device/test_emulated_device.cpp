// labels: unit
// devices: emulated, lazy
// Placements on a device, and what the emulated one finds out about programs: memory that the host touches or that kernels leave, streams
// that nobody waits for, addresses of the wrong place.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>

#include "core/device/device_abi.h"
#include "core/device/device_entry.h"
#include "core/device/device_graph.h"
#include "core/device/device_module.h"
#include "core/device/device_stream.h"
#include "core/device/tensor.h"
#include "kernels/nn/device/device_nn.h"

namespace thinwire {
namespace {

constexpr Device device{DeviceKind::cuda, 0};

bool lazy() { return std::getenv("THINWIRE_EMULATED_LAZY") != nullptr; }

class EmulatedDevice : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::testing::GTEST_FLAG(death_test_style) = "fast";
    setenv("THINWIRE_EMULATED_DEVICES", "2", 1);
  }
  void SetUp() override {
    const std::string reason = why_unavailable(DeviceKind::cuda);
    if (!reason.empty()) GTEST_SKIP() << reason;
    ASSERT_EQ(device_name(device), "emulated on the host (no GPU)") << "this is about emulated devices";
  }
};
using Placements = EmulatedDevice;
using EmulatedDeviceDeathTest = EmulatedDevice;

std::vector<int> counted(std::size_t n) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), 7);
  return values;
}

TEST_F(Placements, NestAndDecideWhereTensorsLie) {
  EXPECT_TRUE(placement().on_host());
  {
    const PlacementScope outer(device);
    EXPECT_EQ(Tensor(Shape{3}).device(), device);
    EXPECT_EQ(Tensor(Shape{3}, DType::f32, Device{}).device(), Device{}) << "said otherwise";
    {
      const PlacementScope inner(Device{});
      EXPECT_EQ(Tensor(Shape{3}).device(), Device{});
      const OwnedStream stream(Device{DeviceKind::cuda, 1});
      const PlacementScope innermost(Placement{stream.get().device, stream.get()});
      EXPECT_EQ(Buffer(64).device().ordinal, 1);
      EXPECT_EQ(placement().stream.handle, stream.get().handle);
    }
    EXPECT_EQ(current_device(), device);
  }
  EXPECT_EQ(current_device(), Device{});
}

TEST_F(Placements, CopiesAndZerosGoBothWaysInTheOrderOfTheStream) {
  const OwnedStream stream(device);
  const PlacementScope scope(Placement{device, stream.get()});
  const auto sent = counted(10'007);
  std::vector<int> received(sent.size()), zeros(sent.size(), 1);
  Tensor a(Shape{10'007}, DType::i32), b(Shape{10'007}, DType::i32);
  copy_bytes(a.view().data(), sent.data(), a.bytes());
  copy_bytes(b.view().data(), a.view().data(), a.bytes());
  a.fill_zero();
  copy_bytes(received.data(), b.view().data(), b.bytes());
  copy_and_wait(zeros.data(), a.view().data(), a.bytes());
  EXPECT_EQ(received, sent);
  EXPECT_EQ(zeros, std::vector<int>(sent.size(), 0));
}

TEST_F(Placements, TypedAccessToADevicesTensorIsRefused) {
  Tensor on_device(Shape{4}, DType::f32, device), on_host(Shape{4}, DType::f32, Device{});
  EXPECT_NO_THROW(on_host.as<float>());
  EXPECT_ANY_THROW(on_device.as<float>());
  EXPECT_ANY_THROW(std::as_const(on_device).view().as<float>());
}

TEST_F(EmulatedDevice, StagingMemoryIsTheHostsAndWhatItHoldsArrives) {
  DeviceBackend& backend = device_backend(DeviceKind::cuda);
  const PlacementScope scope(device);
  auto* staging = static_cast<int*>(backend.allocate_staging(4000, 0));
  EXPECT_EQ(staging[17], -1) << "fresh memory is poisoned";
  std::iota(staging, staging + 1000, 3);
  Buffer there(4000);
  copy_bytes(there.data(), staging, 4000);
  synchronize_placement();
  std::vector<int> back(1000);
  copy_and_wait(back.data(), there.data(), 4000);
  EXPECT_EQ(back, std::vector<int>(staging, staging + 1000));
  backend.release_staging(staging, 0);
}

TEST_F(EmulatedDevice, FreshMemoryHoldsNotNumbers) {
  const PlacementScope scope(device);
  Tensor fresh(Shape{3, 5});
  std::vector<float> seen(15);
  copy_and_wait(seen.data(), fresh.view().data(), fresh.bytes());
  for (const float x : seen) EXPECT_NE(x, x);
}

// One stream writes and another reads: what says that it comes after is the event alone.
TEST_F(EmulatedDevice, AMissingWaitBetweenStreamsShowsWhereStreamsAreLazy) {
  const OwnedStream writes(device), reads(device);
  OwnedEvent written(device);
  const auto sent = counted(100);
  Buffer memory(400, device);
  DeviceBackend& backend = device_backend(DeviceKind::cuda);
  std::vector<int> early(100), late(100);
  backend.copy(memory.data(), sent.data(), 400, writes.get());
  written.record(writes.get());
  backend.copy(early.data(), memory.data(), 400, reads.get());
  reads.synchronize();
  EXPECT_EQ(early == sent, !lazy());
  written.hold(reads.get());
  backend.copy(late.data(), memory.data(), 400, reads.get());
  reads.synchronize();
  EXPECT_EQ(late, sent);
}

TEST_F(EmulatedDevice, HostMemoryThatChangesTooEarlyShowsWhereStreamsAreLazy) {
  const PlacementScope scope(device);
  auto sent = counted(100);
  const auto before = sent;
  std::vector<int> back(100);
  Buffer memory(400);
  copy_bytes(memory.data(), sent.data(), 400);
  std::fill(sent.begin(), sent.end(), 0);
  copy_and_wait(back.data(), memory.data(), 400);
  EXPECT_EQ(back, lazy() ? sent : before);
}

TEST_F(EmulatedDevice, EveryQuestionForAnEventRunsOnePieceOfLazyWork) {
  const OwnedStream stream(device);
  OwnedEvent begin(device), end(device);
  Buffer memory(400, device);
  DeviceBackend& backend = device_backend(DeviceKind::cuda);
  EXPECT_TRUE(end.finished()) << "never recorded";
  begin.record(stream.get());
  for (int i = 0; i < 3; ++i) backend.fill_zero(memory.data(), 400, stream.get());
  end.record(stream.get());
  int questions = 1;
  while (!end.finished()) ++questions;
  EXPECT_EQ(questions, lazy() ? 5 : 1);
  EXPECT_GE(begin.ms_until(end), 0);
}

TEST_F(EmulatedDevice, DevicesAreApart) {
  EXPECT_EQ(device_module().devices(), 2);
  const Device other{DeviceKind::cuda, 1};
  Buffer here(64, device), there(64, other);
  const OwnedStream stream(device);
  DeviceBackend& backend = device_backend(DeviceKind::cuda);
  EXPECT_THROW(backend.copy(here.data(), there.data(), 64, stream.get()), RuntimeFailure) << "memory of another device";
  EXPECT_THROW(backend.fill_zero(here.data(), 64, Stream{other, stream.get().handle}), RuntimeFailure) << "a stream of another device";
  EXPECT_THROW(backend.allocate(64, 2), RuntimeFailure) << "no such device";
  auto* release = device_function<thinwire_cuda_release_fn>("thinwire_cuda_release");
  EXPECT_NE(release(here.data(), 1), 0) << "allocated on another device";
}

TEST_F(EmulatedDevice, CopiesAndFillsStayInsideOneAllocation) {
  Buffer memory(64, device), neighbour(64, device);
  const OwnedStream stream(device);
  DeviceBackend& backend = device_backend(DeviceKind::cuda);
  std::vector<std::byte> host(256);
  EXPECT_NO_THROW(backend.copy(host.data(), memory.data() + 60, 4, stream.get()));
  EXPECT_THROW(backend.copy(host.data(), memory.data() + 60, 5, stream.get()), RuntimeFailure);
  EXPECT_THROW(backend.fill_zero(memory.data() + 1, 64, stream.get()), RuntimeFailure);
  EXPECT_THROW(backend.fill_zero(host.data(), 64, stream.get()), RuntimeFailure) << "the host's";
  auto* release = device_function<thinwire_cuda_release_fn>("thinwire_cuda_release");
  EXPECT_NE(release(memory.data() + 16, 0), 0) << "the middle of an allocation";
  EXPECT_NE(release(host.data(), 0), 0) << "the host's";
  stream.synchronize();
}

int scratch_of_the_host = 0;

void add_into(std::int64_t count, const void* x, void* y) {
  static const DeviceEntry<thinwire_cuda_add_into_fn> entry("thinwire_cuda_add_into");
  entry(device_f32, count, x, y);
}

// CUDA keeps the error of a call that failed until somebody asks for it, and every launch asks.
TEST_F(EmulatedDevice, CallsThatFailOrAreNotReadyLeaveNoErrorForTheNextLaunch) {
  const PlacementScope scope(device);
  Tensor x(Shape{100}), y(Shape{100});
  x.fill_zero();
  y.fill_zero();
  DeviceBackend& backend = device_backend(DeviceKind::cuda);
  const OwnedStream stream(device);
  OwnedEvent never(device), other(device);
  const auto launches = [&](const char* after) { EXPECT_NO_THROW(add_into(100, x.view().data(), y.view().data())) << after; };
  launches("nothing");
  EXPECT_THROW(Buffer(std::size_t{1} << 50), RuntimeFailure);
  launches("an allocation that is too large");
  EXPECT_THROW(backend.fill_zero(x.view().data(), 401, stream.get()), RuntimeFailure);
  launches("a fill that leaves its allocation");
  EXPECT_THROW((void)never.ms_until(other), RuntimeFailure);
  launches("a time between events that were never recorded");
  EXPECT_NE(device_function<thinwire_cuda_release_fn>("thinwire_cuda_release")(&scratch_of_the_host, 0), 0);
  launches("a release of the host's memory");
  other.record(stream.get());
  EXPECT_EQ(other.finished(), true);
  for (int i = 0; i < 2; ++i) backend.fill_zero(x.view().data(), 400, stream.get());
  other.record(stream.get());
  EXPECT_EQ(other.finished(), !lazy());
  launches("an event that is not finished");
  stream.synchronize();
}

bool all_fails_in_a_spoiled_context() {
  constexpr int illegal_address = 700;
  const PlacementScope scope(device);
  Buffer memory(400);
  float host[4] = {};
  void *null_stream = nullptr, *fresh = nullptr;
  return device_function<thinwire_cuda_add_into_fn>("thinwire_cuda_add_into")(device_f32, 4, host, memory.data(), 0, null_stream) == illegal_address &&
         device_function<thinwire_cuda_allocate_fn>("thinwire_cuda_allocate")(&fresh, 64, 0) == illegal_address &&
         device_function<thinwire_cuda_fill_zero_fn>("thinwire_cuda_fill_zero")(memory.data(), 64, 0, null_stream) == illegal_address;
}

// The error of a spoiled context is not forgotten: nothing works there any more.
TEST_F(EmulatedDeviceDeathTest, WhatHasSpoiledTheContextStays) {
  EXPECT_EXIT(std::_Exit(all_fails_in_a_spoiled_context() ? 0 : 1), ::testing::ExitedWithCode(0), "a kernel is given .*memory of the host");
}

TEST_F(EmulatedDeviceDeathTest, TheHostMayNotTouchADevicesMemory) {
  Tensor tensor(Shape{100}, DType::f32, device);
  auto* inside = static_cast<float*>(tensor.view().data()) + 3;
  EXPECT_DEATH(*inside = 1, "host access to memory of the emulated device at .*device 0, byte 12 of an allocation of 400");
  std::vector<float> to(100);
  EXPECT_DEATH(std::memcpy(to.data(), tensor.view().data(), 400), "host access to memory of the emulated device");
  auto* released = static_cast<volatile float*>(Tensor(Shape{100}, DType::f32, device).view().data());
  EXPECT_DEATH((void)*released, "not allocated or released|use-after-poison");
}

TEST_F(EmulatedDeviceDeathTest, AKernelMayNotBeGivenTheHostsMemory) {
  const PlacementScope scope(device);
  Tensor tensor(Shape{100});
  tensor.fill_zero();
  std::vector<float> host(100, 1.0f);
  EXPECT_DEATH(add_into(100, host.data(), tensor.view().data()), "thinwire_cuda_add_into: a kernel is given .*memory of the host");
  Tensor other(Shape{100}, DType::f32, Device{DeviceKind::cuda, 1});
  EXPECT_DEATH(add_into(100, other.view().data(), tensor.view().data()), "a kernel is given .*device 1");
}

TEST_F(EmulatedDeviceDeathTest, AKernelThatWritesPastAnAllocationIsFoundWhenItIsReleased) {
  EXPECT_DEATH(
      {
        const PlacementScope scope(device);
        Tensor x(Shape{101});
        Tensor y(Shape{100});
        x.fill_zero();
        y.fill_zero();
        add_into(100 + 1, x.view().data(), y.view().data());
      },
      "written past the end of the 400 bytes|use-after-poison");
}

TEST_F(EmulatedDeviceDeathTest, StagingMemoryMayNotGoWhileACopyUsesIt) {
  if (!lazy()) GTEST_SKIP() << "copies are over when they are queued";
  EXPECT_DEATH(
      {
        DeviceBackend& backend = device_backend(DeviceKind::cuda);
        void* staging = backend.allocate_staging(400, 0);
        Buffer memory(400, device);
        const OwnedStream stream(device);
        backend.copy(memory.data(), staging, 400, stream.get());
        backend.release_staging(staging, 0);
      },
      "releases page-locked memory that a copy of 400 bytes is still to use");
}

class EmulatedGraph : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    stream.emplace(device);
    here.emplace(Placement{device, stream->get()});
  }
  void TearDown() override { here.reset(), stream.reset(); }
  static std::vector<float> numbers_of(Tensor& t) {
    std::vector<float> values(static_cast<std::size_t>(t.elements()));
    copy_and_wait(values.data(), t.view().data(), t.bytes());
    return values;
  }
  std::optional<OwnedStream> stream;
  std::optional<PlacementScope> here;
};
using EmulatedGraphDeathTest = EmulatedGraph;

TEST_F(EmulatedGraph, OneCallLaunchesIt) {
  auto* calls = device_function<std::int64_t()>("emulated_entry_calls");
  Tensor x(Shape{5});
  const DeviceGraph graph([&] {
    for (int i = 0; i < 30; ++i) x.fill_zero();
  });
  const std::int64_t before = calls();
  graph.launch();
  EXPECT_EQ(calls() - before, 1);
  EXPECT_EQ(numbers_of(x), std::vector<float>(5, 0));
}

TEST_F(EmulatedGraph, PageLockedMemoryIsReadAtEveryLaunch) {
  DeviceBackend& backend = device_backend(DeviceKind::cuda);
  auto* staging = static_cast<float*>(backend.allocate_staging(20, 0));
  Tensor x(Shape{5});
  const DeviceGraph graph([&] { copy_bytes(x.view().data(), staging, 20); });
  for (const float value : {1.0f, 2.0f}) {
    std::fill(staging, staging + 5, value);
    graph.launch();
    EXPECT_EQ(numbers_of(x), std::vector<float>(5, value));
  }
  backend.release_staging(staging, 0);
}

// Each loses the recording, whether or not the program goes on, and leaves the stream as it was.
TEST_F(EmulatedGraph, WhatADeviceDoesNotRecordIsRefused) {
  Tensor x(Shape{5});
  const OwnedStream other(device);
  OwnedEvent event(device), recorded(device);
  event.record(stream->get());
  DeviceBackend& backend = device_backend(DeviceKind::cuda);
  std::vector<float> host(5, 3);
  void *staging = backend.allocate_staging(20, 0), *held = backend.allocate(20, 0);
  const auto refused = [&](const char* what, const std::function<void()>& body) {
    for (const bool goes_on : {false, true}) {
      const auto record = [&] {
        x.fill_zero();
        try {
          body();
        } catch (const RuntimeFailure&) {
          if (!goes_on) throw;
        }
      };
      EXPECT_THROW(DeviceGraph{record}, RuntimeFailure) << what;
      EXPECT_NO_THROW(synchronize_placement()) << what;
    }
  };
  refused("waiting", [&] { synchronize_placement(); });
  refused("asking for an event", [&] { (void)event.finished(); });
  refused("recording an event", [&] { recorded.record(stream->get()); });
  refused("waiting for an event", [&] { event.hold(stream->get()); });
  refused("allocating", [&] { Buffer fresh(64); });
  refused("allocating page-locked memory", [&] { backend.allocate_staging(64, 0); });
  refused("releasing", [&] { backend.release(held, 0); });
  refused("releasing page-locked memory", [&] { backend.release_staging(staging, 0); });
  refused("pageable memory", [&] { copy_bytes(x.view().data(), host.data(), 20); });
  refused("recording within a recording", [&] {
    const PlacementScope there(Placement{device, other.get()});
    const DeviceGraph inner([&] { x.fill_zero(); });
  });
  const DeviceGraph graph([&] { x.fill_zero(); });
  graph.launch();
  EXPECT_EQ(numbers_of(x), std::vector<float>(5, 0));
  backend.release_staging(staging, 0);
  backend.release(held, 0);
}

TEST_F(EmulatedGraph, ReleasesAreCounted) {
  const std::uint64_t before = device_releases();
  { Buffer memory(64), host(64, Device{}); }
  EXPECT_EQ(device_releases(), before + 1);
  Buffer grows(64);
  grows.reserve(32);
  EXPECT_EQ(device_releases(), before + 1);
  grows.reserve(65);
  EXPECT_EQ(device_releases(), before + 2);
}

TEST_F(EmulatedGraphDeathTest, AGraphWhoseMemoryWasReleasedMayNotBeLaunched) {
  EXPECT_DEATH(
      {
        Tensor x(Shape{5});
        const DeviceGraph graph([&] { x.fill_zero(); });
        const void* lay = x.view().data();
        { const Tensor gone(std::move(x)); }
        Tensor y(Shape{5});
        if (y.view().data() == lay) graph.launch();  // the same address is not the same memory
      },
      "launches a graph that holds memory which was released");
}

}  // namespace
}  // namespace thinwire
