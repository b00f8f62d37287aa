// labels: unit
// The contest's accounting walked, against the numbers of docs/papers/low_bandwidth_pipeline.md, "The
// contest's link" and "Worked examples".
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "experiments/claims/low_bandwidth_pipeline/cells/speedrun.h"

namespace thinwire::claims::low_bandwidth_pipeline {
namespace {

double times(const char* schedule, int p, int m, Wire wire = contest) {
  constexpr std::int64_t bytes = 1 << 20;
  return walked_step(make_schedule(schedule, p, m), wire, bytes) / contest.message_time(bytes);
}

TEST(MeterWalk, CountsTheMessagesOfAStep) {
  struct {
    int p, m, n;
  } const known[] = {{2, 8, 9}, {3, 3, 7}, {4, 4, 11}, {6, 16, 39}, {8, 8, 27}, {8, 64, 139}, {16, 64, 155}};
  for (const auto& k : known) {
    EXPECT_NEAR(times("1f1b", k.p, k.m), k.n, 1e-9) << k.p << " stages, " << k.m << " micro-batches";
    EXPECT_EQ(messages_of_1f1b(k.p, k.m), k.n);
    if (k.p > 2) {
      EXPECT_NEAR(times("gpipe", k.p, k.m), messages_of_gpipe(k.p, k.m), 1e-9);
    }
  }
  Wire apart = contest;
  apart.shared = false;
  EXPECT_NEAR(times("1f1b", 3, 3, apart), 6, 1e-9);
  EXPECT_NEAR(times("1f1b", 4, 8, apart), 16, 1e-9);
  EXPECT_NEAR(times("1f1b", 8, 64, apart), 124, 1e-9);
}

TEST(MeterWalk, OtherLinksTakeTheOtherTimes) {
  const auto seconds = [](std::size_t baseline, const Wire& wire) {
    return walked_step(make_schedule("1f1b", stages, baselines()[baseline].micro_batches), wire,
                       baselines()[baseline].message_bytes);
  };
  EXPECT_NEAR(contest.message_time(baselines()[0].message_bytes), 0.72108896, 1e-12);
  EXPECT_NEAR(contest.message_time(baselines()[1].message_bytes), 0.26102624, 1e-12);
  const Wire propagates = {.rate = 200e6, .latency = 0.05, .latency_occupies = false},
             apart = {.rate = 200e6, .latency = 0.05, .shared = false}, at_once = {.rate = 200e6};
  EXPECT_NEAR(seconds(0, contest), 100.2314, 5e-5);
  EXPECT_NEAR(seconds(1, contest), 19.5770, 5e-5);
  EXPECT_NEAR(seconds(0, propagates), 99.181, 5e-4);
  EXPECT_NEAR(seconds(1, propagates), 19.127, 5e-4);
  EXPECT_NEAR(seconds(0, apart), 89.415, 5e-4);
  EXPECT_NEAR(seconds(1, apart), 17.750, 5e-4);
  EXPECT_NEAR(seconds(0, at_once), 93.281, 5e-4);
  EXPECT_NEAR(seconds(1, at_once), 15.827, 5e-4);
}

TEST(MeterWalk, PassesPushTheStepsOfBothRecordsNearTheirTimes) {
  for (const Baseline& b : baselines()) {
    const double step =
        walked_step(make_schedule("1f1b", stages, b.micro_batches), contest, b.message_bytes, b.passes);
    EXPECT_LT(std::abs(step / b.measured - 1), 0.01) << b.name << ": " << step;
    EXPECT_GT(step, contest.message_time(b.message_bytes) * messages_of_1f1b(stages, b.micro_batches) +
                        b.passes.optimizer);
  }
}

TEST(MeterWalk, TheBestCutIsThatOfTheTable) {
  EXPECT_NEAR(best_micro_batches(8, 2048.0 * tokens_of_a_step, contest), 68.7, 0.05);
  EXPECT_NEAR(best_micro_batches(8, 162.0 * tokens_of_a_step, contest), 19.3, 0.05);
  const auto seconds = [](int m, int bytes) {
    return walked_step(make_schedule("1f1b", 8, m), contest, tokens_of_a_step / m * bytes);
  };
  EXPECT_NEAR(seconds(8, 2048), 146.31, 5e-3);
  EXPECT_NEAR(seconds(64, 1028), 53.77, 5e-3);
  EXPECT_NEAR(seconds(16, 162), 11.28, 5e-3);
}

TEST(MeterWalk, AStageThatWaitsForEverIsNamed) {
  Schedule s = make_schedule("1f1b", 2, 2);
  s.stage[1].clear();
  try {
    walked_step(s, contest, 8);
    ADD_FAILURE() << "it ended";
  } catch (const RuntimeFailure& e) {
    EXPECT_NE(std::string(e.what()).find("stage 0"), std::string::npos) << e.what();
  }
}

TEST(SleepingRanks, TakeTheContestsStepInATwentieth) {
  const CellRequest r = sleeping(8, 64, 16777216, {.forward = 0.02}, 20, 64, 3);
  EXPECT_EQ(r.link, "emulated:62.5mbit,latency=2.5ms,meter=inbound");
  EXPECT_EQ(r.parameters.integer("bytes"), 262144);
  EXPECT_NEAR(r.parameters.number("forward-us"), 1000, 1e-9);
  results::CellRecord record;
  EXPECT_TRUE(std::isnan(slept(record, 20).seconds));
  for (const double us : {9e6, 5.0e6, 5.1e6, 5.05e6}) record.samples.emplace_back().total_us = us;
  EXPECT_NEAR(slept(record, 20).seconds, 101, 1e-9) << "the first window never counts";
  EXPECT_NEAR(slept(record, 20).spread, 0.02, 1e-9);
}

}  // namespace
}  // namespace thinwire::claims::low_bandwidth_pipeline
