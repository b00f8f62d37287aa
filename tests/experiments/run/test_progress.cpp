// labels: unit
// The time left of a sweep, with a clock that the test plays.
#include "experiments/run/progress.h"

#include <gtest/gtest.h>

#include <cmath>

namespace thinwire::sweep {
namespace {

PlannedCell cell_of(const std::string& program, const std::string& link, int ranks) {
  PlannedCell cell;
  cell.program = program;
  cell.link = link;
  cell.ranks = ranks;
  return cell;
}

Launch launch_of(const PlannedCell& cell) {
  Launch launch;
  launch.program = cell.program;
  launch.link = cell.link;
  launch.ranks = cell.ranks;
  return launch;
}

class TimeLeft : public ::testing::Test {
 protected:
  Progress progress_of(const std::vector<PlannedCell>& todo) {
    return Progress(0, todo, [this] { return now; });
  }
  // A launch of one cell that takes so long.
  void play(Progress& progress, const PlannedCell& cell, double seconds) {
    start(progress, cell);
    now += seconds;
    progress.cell_ended(cell, true);
  }
  void start(Progress& progress, const PlannedCell& cell) {
    progress.launch_started(launch_of(cell));
    progress.cell_started(cell);
  }
  double now = 1000;
  const PlannedCell shm2 = cell_of("bench", "shm", 2), shm4 = cell_of("bench", "shm", 4), slow2 = cell_of("bench", "netns:10mbit", 2),
                    slow4 = cell_of("bench", "netns:10mbit", 4), train2 = cell_of("train", "shm", 2), other = cell_of("other", "loopback", 1);
};

TEST_F(TimeLeft, IsUnknownUntilACellHasEnded) {
  Progress progress = progress_of({shm2, shm2});
  EXPECT_TRUE(std::isnan(progress.eta_seconds()));
  start(progress, shm2);
  now += 10;
  EXPECT_TRUE(std::isnan(progress.eta_seconds()));
}

TEST_F(TimeLeft, IsThatOfTheCellsMostAlike) {
  Progress progress = progress_of({shm2, shm2, shm4, shm4, slow2, slow4, slow4, train2, train2, other});
  play(progress, shm2, 1);
  // Nothing else is known: one second for each of the nine.
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 9);
  play(progress, shm4, 3);
  play(progress, slow2, 60);
  play(progress, train2, 20);
  // shm2 1, shm4 3, train2 20 of their own class; slow4 60 each from its program and link; other: the mean of all, 84 / 4.
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 1 + 3 + 20 + 2 * 60 + 21);
}

TEST_F(TimeLeft, FallsBackToTheProgramAndThenToTheLink) {
  Progress progress = progress_of({shm2, train2, slow2, cell_of("other", "shm", 8)});
  play(progress, shm2, 2);
  play(progress, train2, 10);
  // slow2: program `bench`, 2 s. `other` on shm: no such program, so the link: (2 + 10) / 2.
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 2 + 6);
}

TEST_F(TimeLeft, OfSlowCellsAtTheEndIsNotThatOfTheQuickOnesBefore) {
  std::vector<PlannedCell> todo(100, shm2);
  todo.insert(todo.end(), 4, slow2);
  Progress progress = progress_of(todo);
  for (int i = 0; i < 100; ++i) play(progress, shm2, 0.1);
  play(progress, slow2, 90);
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 3 * 90);
}

TEST_F(TimeLeft, CountsWhatTheRunningCellHasTaken) {
  Progress progress = progress_of({shm2, shm2, shm2});
  play(progress, shm2, 10);
  start(progress, shm2);
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 20);
  now += 4;
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 16);
  now += 6;
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 10);
  // Late by 20 s: 20 s more, and the third is then expected to take the mean of 10 and 50.
  now += 20;
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 20 + 30);
}

TEST_F(TimeLeft, NeverStandsStillWhileASlowCellRuns) {
  Progress progress = progress_of({shm2, slow4});
  play(progress, shm2, 9);
  start(progress, slow4);
  now += 9;
  double before = progress.eta_seconds();
  for (int i = 0; i < 60; ++i) {  // six minutes: the estimate once stood at 0:09 for as long
    now += 6;
    EXPECT_GT(progress.eta_seconds(), before) << i;
    before = progress.eta_seconds();
  }
  EXPECT_DOUBLE_EQ(before, 360);
  progress.cell_ended(slow4, true);
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 0);
}

TEST_F(TimeLeft, CountsACellThatIsToRunAgain) {
  Progress progress = progress_of({shm2, shm2});
  play(progress, shm2, 5);
  play(progress, shm2, 7);
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 0);
  progress.cell_again(shm2);
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 6);
}

}  // namespace
}  // namespace thinwire::sweep
