// labels: unit
// Waiting makes progress: a wait in place of computing lets transfers go on, and codec work that they need takes the rank's time, too. Only lower
// bounds: a loaded machine wakes up late.
#include <gtest/gtest.h>

#include "collectives/channel/codec_timer.h"
#include "core/clock.h"
#include "models/compute/compute_clock.h"

namespace thinwire {
namespace {

TEST(ComputeClock, AWaitAsksForTransfersUntilNoneIsLeft) {
  ComputeClock clock;
  int asked = 0;
  clock.progress_by([&] { return ++asked < 3; });
  const std::int64_t deadline = now_ns() + 50'000'000;
  clock.wait_until(deadline);
  EXPECT_GE(now_ns(), deadline);
  EXPECT_GE(asked, 1);
  EXPECT_LE(asked, 3);
  clock.progress();
  EXPECT_GE(asked, 2);
}

TEST(ComputeClock, ReplayedSectionsWaitForTransfersOneByOneAndJoined) {
  ComputeClock clock;
  int ran = 0, asked = 0;
  const auto section = [&] { clock.run("section", 0, 0, [&] { ++ran; }); };
  clock.set_mode(ComputeMode::serial);
  section();
  clock.set_mode(ComputeMode::replay);
  clock.progress_by([&] { return ++asked, false; });
  section();
  EXPECT_EQ(asked, 1);
  clock.begin_joined();
  section();
  section();
  EXPECT_EQ(asked, 1) << "joined sections have nothing between them";
  clock.end_joined();
  EXPECT_EQ(asked, 2);
  clock.begin_stated("stated", 1.0, 0);
  EXPECT_EQ(asked, 3);
  clock.end_stated();
  EXPECT_EQ(ran, 1);
}

TEST(ComputeClock, CodecWorkOfATransferProlongsTheWait) {
  CodecTimer codec;
  const SectionKey key{.rows = 1, .columns = 1};
  std::int64_t value = 0;
  codec.set_mode(ComputeMode::serial);
  codec.run(key, value, [] { sleep_until_ns(now_ns() + 3'000'000); });
  codec.set_mode(ComputeMode::replay);
  ComputeClock clock;
  int encoded = 0;
  clock.progress_by([&] { return codec.run(key, value, [] {}), ++encoded < 2; });
  const std::int64_t before = CodecTimer::replayed_ns(), deadline = now_ns() + 5'000'000;
  clock.wait_until(deadline);
  const std::int64_t replayed = CodecTimer::replayed_ns() - before;
  EXPECT_GE(replayed, encoded * 3'000'000);
  EXPECT_GE(now_ns(), deadline + replayed);
}

}  // namespace
}  // namespace thinwire
