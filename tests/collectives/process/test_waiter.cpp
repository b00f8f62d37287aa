// labels: unit
// How a rank waits: naps that would take half an hour end when they should. Where one does not, the time of the test is up.
#include "collectives/process/waiter.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/clock.h"

namespace thinwire {
namespace {

constexpr int half_an_hour_us = 1'800'000'000;

TEST(Waiter, ABellEndsANap) {
  const Waiter::Quiet quiet(half_an_hour_us);
  Doorbell bell;
  const Waiter::Listening listening(bell);
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> done = false;
    std::thread other([&] {
      done = true;
      bell.ring();
    });
    {
      Waiter waiter;
      while (!done) waiter.pause();
    }
    other.join();
  }
}

TEST(Waiter, ABellRungDuringAPollIsHeard) {
  const Waiter::Quiet quiet(half_an_hour_us);
  Doorbell bell;
  const Waiter::Listening listening(bell);
  Waiter waiter;
  bell.ring();     // during the first poll
  waiter.pause();  // returns at once: poll again, listening
  bell.ring();     // during the second
  waiter.pause();
  bell.ring();
  waiter.pause();
}

TEST(Waiter, OfSeveralBellsTheNewestIsHeard) {
  const Waiter::Quiet quiet(half_an_hour_us);
  Doorbell old, young;
  const Waiter::Listening to_old(old);
  Waiter waiter;
  waiter.pause();
  {
    const Waiter::Listening to_young(young);
    waiter.pause();
    young.ring();
    waiter.pause();
  }
  waiter.pause();
  old.ring();
  waiter.pause();
}

TEST(Waiter, ANapEndsWhenWhatIsWaitedForIsDue) {
  const Waiter::Quiet quiet(half_an_hour_us);
  Waiter waiter;
  const std::int64_t start = now_ns();
  Waiter::due(start + 20'000'000);
  Waiter::due(start + 10'000'000);
  waiter.pause();
  EXPECT_GE(now_ns(), start + 10'000'000);
  waiter.nap(start + 30'000'000);
  EXPECT_GE(now_ns(), start + 30'000'000);
}

TEST(Waiter, WhatWasDueInOneNapIsNotDueInTheNext) {
  Waiter waiter;
  const std::int64_t start = now_ns();
  {
    const Waiter::Quiet quiet(half_an_hour_us);
    Waiter::due(start);
    waiter.pause();
  }
  const Waiter::Quiet quiet(20'000);
  waiter.pause();
  EXPECT_GE(now_ns(), start + 20'000'000);
}

}  // namespace
}  // namespace thinwire
