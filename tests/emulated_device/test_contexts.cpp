// labels: unit
// devices: emulated, lazy
// A rank touches its own device alone: a context costs half a GB, and eight ranks would each have one on device 0.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "core/device/device_abi.h"
#include "core/device/device_entry.h"
#include "core/device/device_graph.h"
#include "core/device/device_module.h"
#include "core/device/device_stream.h"
#include "core/device/tensor.h"
#include "kernels/nn/device/device_nn.h"
#include "kernels/workspace.h"

namespace thinwire {
namespace {

constexpr Device second{DeviceKind::cuda, 1};

std::uint64_t contexts() { return device_function<std::uint64_t()>("emulated_contexts")(); }

void work_there() {
  const OwnedStream stream(second);
  const PlacementScope scope(Placement{second, stream.get()});
  Tensor x(Shape{100}), y(Shape{100});
  x.fill_zero();
  y.fill_zero();
  device_workspace(1000);
  static const DeviceEntry<thinwire_cuda_add_into_fn> add_into("thinwire_cuda_add_into");
  add_into(device_f32, std::int64_t{100}, static_cast<const void*>(x.view().data()), static_cast<void*>(y.view().data()));
  const DeviceGraph graph([&] { x.fill_zero(); });
  graph.launch();
  DeviceBackend& backend = device_backend(DeviceKind::cuda);
  backend.release_staging(backend.allocate_staging(400, 1), 1);
  synchronize_placement();
}

TEST(Contexts, AreMadeOnTheDeviceThatIsWorkedOnAndOnNoOther) {
  setenv("THINWIRE_EMULATED_DEVICES", "2", 1);
  if (const std::string reason = why_unavailable(DeviceKind::cuda); !reason.empty()) GTEST_SKIP() << reason;
  ASSERT_EQ(device_name(second), "emulated on the host (no GPU)") << "this is about emulated devices";
  EXPECT_EQ(contexts(), 0u);
  work_there();
  EXPECT_EQ(contexts(), 2u);
  // A thread that has chosen no device asks for events: as whoever watches transfers does.
  const OwnedStream stream(second);
  OwnedEvent begin(second), end(second);
  begin.record(stream.get());
  end.record(stream.get());
  std::thread([&] {
    while (!end.finished()) {
    }
    (void)begin.ms_until(end);
  }).join();
  EXPECT_EQ(contexts(), 2u) << "asked for an event";
  std::thread(work_there).join();
  EXPECT_EQ(contexts(), 2u) << "another thread";
}

}  // namespace
}  // namespace thinwire
