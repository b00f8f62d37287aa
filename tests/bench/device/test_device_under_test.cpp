// labels: unit
// devices: emulated, lazy
// How bench_device times: what is queued while the device is busy with fills has its launches hidden. An emulated device that works at once is done before
// it is asked, and no number of fills hides that; a lazy one is not.
#include <gtest/gtest.h>

#include <cstdlib>

#include "bench/device/device_under_test.h"

namespace thinwire::bench {
namespace {

TEST(DeviceUnderTest, TheFillBeforeTimedWorkIsLargerThanCaches) { EXPECT_GE(lead_bytes, std::size_t{3} * 60'000'000); }

TEST(DeviceUnderTest, FillsGrowUntilTheyHideTheLaunchesOrAreTheMost) {
  if (const std::string reason = why_unavailable(DeviceKind::cuda); !reason.empty()) GTEST_SKIP() << reason;
  ASSERT_TRUE(is_emulated({DeviceKind::cuda, 0})) << "this is about emulated devices";
  const bool lazy = std::getenv("THINWIRE_EMULATED_LAZY") != nullptr;
  DeviceUnderTest device(0);
  std::vector<float> x(100, 1.0f), y(100);
  void* there = device.allocate(400);
  const auto copies = [&] { device.copy(there, x.data(), 400), device.copy(y.data(), there, 400); };
  EXPECT_GE(device.timed_us(copies), 0);
  EXPECT_EQ(y, x);
  EXPECT_EQ(device.fills(), lazy ? 1 : DeviceUnderTest::most_fills);
  EXPECT_EQ(device.exposed(), !lazy);
  // Work that waits for the device is exposed on any.
  (void)device.timed_us([&] { device.transfer(there, x.data(), 400); });
  EXPECT_EQ(device.fills(), DeviceUnderTest::most_fills);
  EXPECT_TRUE(device.exposed());
  results::CellRow row;
  device.judge(row);
  EXPECT_EQ(row.status, "MISTRUSTED");
  EXPECT_NE(row.reason.find("launches"), std::string::npos) << row.reason;
}

}  // namespace
}  // namespace thinwire::bench
