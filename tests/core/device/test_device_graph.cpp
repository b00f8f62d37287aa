// labels: gpu
// devices: cuda, emulated, lazy
// A stream's work recorded once: it runs when it is launched, each time on what lies there then; what cannot be recorded is an error.
#include <gtest/gtest.h>

#include "core/device/device_graph.h"
#include "core/device/device_stream.h"
#include "core/error.h"
#include "core/device/tensor.h"
#include "kernels/nn/elementwise.h"
#include "kernels/values.h"

namespace thinwire {
namespace {

class DeviceGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = why_unavailable(DeviceKind::cuda);
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(DeviceGraphs, RunsWhenItIsLaunchedAndAgainWithWhatLiesThereThen) {
  const OwnedStream stream({DeviceKind::cuda, 0});
  const PlacementScope here(Placement{stream.get().device, stream.get()});
  Tensor x({3}), y({3});
  const float one[3] = {1, 2, 3}, two[3] = {10, 20, 30};
  copy_and_wait(x.view().data(), one, sizeof one);
  y.fill_zero();
  auto* to = static_cast<float*>(y.view().data());
  const auto* from = static_cast<const float*>(x.view().data());
  const DeviceGraph graph([&] {
    nn::add_into<float>(3, from, to);
    nn::scale_in_place<float>(3, 2.0f, to);
  });
  const auto values = [&] {
    const Tensor seen = on_host(y.view());
    return std::vector<float>(seen.as<float>().begin(), seen.as<float>().end());
  };
  EXPECT_EQ(values(), (std::vector<float>{0, 0, 0})) << "recording ran it";
  graph.launch();
  EXPECT_EQ(values(), (std::vector<float>{2, 4, 6}));
  copy_and_wait(x.view().data(), two, sizeof two);
  graph.launch();
  graph.launch();
  EXPECT_EQ(values(), (std::vector<float>{((2 + 10) * 2 + 10) * 2, ((4 + 20) * 2 + 20) * 2, ((6 + 30) * 2 + 30) * 2}));
}

TEST_F(DeviceGraphs, WaitingAndAllocatingCannotBeRecordedAndLeaveTheStreamUsable) {
  const OwnedStream stream({DeviceKind::cuda, 0});
  const PlacementScope here(Placement{stream.get().device, stream.get()});
  EXPECT_THROW(DeviceGraph([] { synchronize_placement(); }), RuntimeFailure);
  EXPECT_THROW(DeviceGraph([] { Tensor fresh({1000}); }), RuntimeFailure);
  Tensor x({3});
  x.fill_zero();
  const Tensor seen = on_host(x.view());
  EXPECT_EQ(seen.as<float>()[2], 0.0f);
}

}  // namespace
}  // namespace thinwire
