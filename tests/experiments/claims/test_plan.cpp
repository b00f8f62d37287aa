// labels: unit
// How long a plan says that its cells take.
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/claims/plan.h"

namespace thinwire::claims {
namespace {

CellRequest training(int steps, const std::string& link = "shm", double rate = 0.01) {
  CellRequest r{"train_gpt", 4, link, {}, 3600, {"test"}, /*timed=*/false};
  r.parameters.set("steps", steps), r.parameters.set("learning-rate", rate);
  return r;
}

std::string id_of(const CellRequest& r) { return results::cell_id(r.program, r.ranks, r.link, r.parameters); }

/// As a collected file has it: without parameters. Its launch took 100 s.
results::CellRecord measured(const CellRequest& request, double wall_s, const std::string& launch = "0001") {
  results::CellRecord record;
  record.cell_id = id_of(request), record.program = request.program, record.ranks = request.ranks, record.link = request.link;
  record.training.curve.emplace_back().step = request.parameters.integer("steps") - 1;
  if (wall_s > 0) record.training.attempts.emplace_back().wall_s = wall_s;
  record.provenance.launch = launch, record.provenance.started = "2026-11-27T10:00:00.000Z", record.provenance.finished = "2026-11-27T10:01:40.000Z";
  return record;
}

CellTimes times_of(const std::vector<results::CellRecord>& records) {
  std::map<std::string, results::CellRecord> by_id;
  for (const results::CellRecord& record : records) by_id[record.cell_id] = record;
  return CellTimes(by_id);
}

TEST(CellTimes, AreThoseOfTheSameCell) {
  const CellTimes times = times_of({measured(training(1000), 90), measured(training(1000, "shm", 0.02), 70), measured(training(10), 3)});
  EXPECT_EQ(times.seconds(training(1000)), 90);
  CellRequest said = training(1000);
  said.about_seconds = 5;
  EXPECT_EQ(times.seconds(said), 90);
  said.parameters.set("seed", 2);
  EXPECT_EQ(times.seconds(said), 5) << "another cell, whose claim says how long it takes";
}

TEST(CellTimes, OfOtherTrainingsGoByTheStepAndTheLink) {
  const CellTimes times = times_of({measured(training(1000), 90), measured(training(1000, "shm", 0.02), 110), measured(training(10, "shm", 0.02), 1), measured(training(10, "slow"), 50)});
  EXPECT_DOUBLE_EQ(times.seconds(training(500)), 50) << "the median of 0.09, 0.11 and 0.1 s a step";
  EXPECT_DOUBLE_EQ(times.seconds(training(20, "slow")), 100);
  EXPECT_DOUBLE_EQ(times.seconds(training(1000, "another", 0.02)), 105) << "no such link: 0.09, 0.1, 0.11 and 5 s a step";
  CellRequest other = training(10);
  other.ranks = 2;
  EXPECT_TRUE(std::isnan(times.seconds(other)));
}

TEST(CellTimes, ShareTheirLaunchsTimeWhereNoneWasKept) {
  const CellRequest first = training(1, "a"), second = training(2, "b");
  const CellTimes times = times_of({measured(first, 0), measured(second, 0)});
  EXPECT_DOUBLE_EQ(times.seconds(first), 50);
  CellTimes both = times;
  both.add(times_of({measured(training(7, "c"), 14)}));
  EXPECT_DOUBLE_EQ(both.seconds(training(7, "c")), 14);
  EXPECT_DOUBLE_EQ(both.seconds(second), 50);
}

}  // namespace
}  // namespace thinwire::claims
