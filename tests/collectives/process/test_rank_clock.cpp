// labels: unit
// The time of a rank: being woken late does not count, working does. A machine can only be late, so every bound here is one that lateness cannot break.
#include "collectives/process/rank_clock.h"

#include <gtest/gtest.h>

#include "core/clock.h"

namespace thinwire {
namespace {

constexpr std::int64_t ms = 1'000'000;

/// At least so far behind the machine's clock.
void expect_behind(std::int64_t least_ns) {
  const std::int64_t rank = RankClock::now_ns(), machine = now_ns();
  EXPECT_GE(machine - rank, least_ns);
}

/// Waits for what happens `after_ns` later, and is woken after 20 ms. When the wait began: lateness before it would be part of it.
std::int64_t wait_too_long(std::int64_t after_ns = 0) {
  RankClock::idle();
  const std::int64_t start = now_ns();
  sleep_until_ns(start + 20 * ms);
  RankClock::happened(start + after_ns);
  return start;
}

void expect_reached(std::int64_t time_ns) { EXPECT_GE(RankClock::now_ns(), time_ns); }

TEST(RankClock, GoesOnAtTheMomentThatWasWaitedFor) {
  RankClock::synchronise();
  const std::int64_t start = wait_too_long(1 * ms);
  expect_behind(19 * ms);
  expect_reached(start + 1 * ms);
}

TEST(RankClock, ReplayedSectionsMakeUpForWhatWasLate) {
  RankClock::synchronise();
  const std::int64_t start = wait_too_long();
  RankClock::sleep_until_ns(RankClock::now_ns() + 5 * ms);
  expect_behind(5 * ms);
  expect_reached(start + 5 * ms);
  RankClock::sleep_until_ns(start + 60 * ms);
  EXPECT_GE(now_ns(), start + 60 * ms);
  expect_reached(start + 60 * ms);
}

TEST(RankClock, StaysWhereTheWaitBeganIfTheMomentWasEarlier) {
  RankClock::synchronise();
  const std::int64_t start = now_ns();
  RankClock::idle();
  sleep_until_ns(start + 10 * ms);
  RankClock::idle();  // the same wait
  sleep_until_ns(start + 20 * ms);
  RankClock::happened(start - 50 * ms);
  expect_reached(start);
  expect_behind(0);
}

TEST(RankClock, WorkCounts) {
  RankClock::synchronise();
  RankClock::idle();
  RankClock::busy();
  const std::int64_t start = now_ns();
  sleep_until_ns(start + 20 * ms);
  RankClock::happened(start);  // found only after the work
  expect_reached(start + 20 * ms);
}

TEST(RankClock, AfterAWaitForWhatHasNoMomentItIsAsLateAsItIs) {
  RankClock::synchronise();
  const std::int64_t start = wait_too_long();
  RankClock::idle();
  RankClock::busy();
  expect_reached(start + 20 * ms);
}

TEST(RankClock, RanksThatMeetAgreeWithTheMachine) {
  wait_too_long();
  RankClock::synchronise();
  const std::int64_t machine = now_ns();
  expect_reached(machine);
}

}  // namespace
}  // namespace thinwire
