// labels: unit
// The race over made-up curves: what is tried, the target, steps to it, ranking, intervals, flips, which states timed runs lack, and what a course's file is refused for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "core/error.h"
#include "experiments/race/entrant_settings.h"
#include "experiments/race/race_cells.h"
#include "experiments/race/race_report.h"
#include "results/collect.h"
#include "results/kept_state.h"
#include "results/provenance.h"
#include "results/record.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace thinwire::race {
namespace {

using testing::TemporaryFolder;

const std::string head = R"(
[race]
name = "test"
horizon = 100
longest = 4
validate_every = 10
rates = [0.01, 0.03, 0.1]
tuning_seed = 9
seeds = [1, 2, 3]
links = ["netns:1gbit", "emulated:20mbit"]
[loss]
parameters = {hidden = 8}
[time]
ranks = 4
parameters = {pp = 4}
)";

Course course_with(const std::string& entrants) {
  const TemporaryFolder folder;
  Course c = read_course(folder.write("course.toml", head + entrants));
  c.links = {"fast", "slow"};
  return c;
}

// A training in numbers: the loss falls from 5 towards `floor` as steps x speed over the run's length do, the faster the nearer its rate is to `best`.
struct MadeUp {
  double speed = 1, best = 0.03, floor = 1;
  bool diverges_above = false;
};

class Trainer {
 public:
  std::map<std::string, MadeUp> of;
  std::map<int, double> harder;  // what a seed's losses lie above the others'
  std::vector<LossRequest> asked;
  std::vector<LossRun> operator()(std::span<const LossRequest> requests) {
    std::vector<LossRun> runs;
    for (const LossRequest& r : requests) {
      asked.push_back(r);
      const MadeUp& m = of[r.entrant->name];
      LossRun run;
      run.diverged = m.diverges_above && r.rate > m.best;
      const double off = std::abs(std::log(r.rate / m.best)), pace = m.speed / (1 + off);
      for (int step = 10; !run.diverged && step <= r.steps; step += 10) run.curve.push_back({step, m.floor + 4 * std::exp(-pace * step / 50.0) + 0.001 * (r.seed % 4) + harder[r.seed]});
      runs.push_back(std::move(run));
    }
    return runs;
  }
  TrainRuns runs() {
    return [this](std::span<const LossRequest> requests) { return (*this)(requests); };
  }
};

TEST(Race, TunesOnASeedThatDoesNotRaceAndTakesTheRateThatArrivesFirst) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n");
  Trainer trainer;
  const Performance p = tune(c, c.baseline(), none, trainer.runs());
  EXPECT_EQ(p.rate, 0.03);
  EXPECT_EQ(p.steps, 100);
  ASSERT_EQ(trainer.asked.size(), 5u);  // three rates over half, two over the whole
  for (const LossRequest& r : trainer.asked) EXPECT_EQ(r.seed, 9);
  EXPECT_EQ(trainer.asked[2].steps, 50);
  EXPECT_EQ(trainer.asked[3].steps, 100);
}

TEST(Race, GoesBeyondAnEdgeOfTheRatesAsFarAsItGetsBetter) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n");
  Trainer trainer;
  trainer.of["dense"].best = 0.4;
  const Performance p = tune(c, c.baseline(), none, trainer.runs());
  EXPECT_NEAR(p.rate, 0.1 * std::pow(10.0 / 3, 1), 1e-9);  // of 0.1, 0.333, 1.11 the nearest to 0.4
  trainer.of["dense"] = {.best = 0.03, .diverges_above = true};
  EXPECT_EQ(tune(c, c.baseline(), none, trainer.runs()).rate, 0.03);
}

TEST(Race, StretchesARunUntilItArrivesOrTheCourseEnds) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"slow\"\n[[entrant]]\nname = \"never\"\n");
  Trainer trainer;
  trainer.of["slow"].speed = 0.4, trainer.of["never"].floor = 2;
  Performance dense = tune(c, c.baseline(), none, trainer.runs());
  const double target = target_of(c, dense, trainer.runs());
  EXPECT_NEAR(target, 1 + 4 * std::exp(-90 / 50.0) + 0.002, 1e-12);
  run_seeds(c, c.baseline(), target, dense, trainer.runs());
  EXPECT_EQ(dense.steps_to_target, (std::vector<double>{90, 90, 100}));  // the third seed's losses lie above the mean's
  Performance slow = tune(c, c.entrants[1], target, trainer.runs());
  EXPECT_EQ(slow.steps, 400);
  run_seeds(c, c.entrants[1], target, slow, trainer.runs());
  EXPECT_EQ(slow.steps_to_target, (std::vector<double>{230, 230, 230}));
  Performance never = tune(c, c.entrants[2], target, trainer.runs());
  EXPECT_EQ(never.steps, 0);
  const std::size_t before = trainer.asked.size();
  run_seeds(c, c.entrants[2], target, never, trainer.runs());
  EXPECT_EQ(trainer.asked.size(), before);
  EXPECT_EQ(never.arrived(), 0);
}

// A tuning seed whose losses lie above those of the seeds that race does not stretch whoever is as good as the baseline.
TEST(Race, TuningRunsHaveToReachWhatTheBaselineReachesWithTheirSeed) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"dense, other seeds\"\nseeds = [11, 12]\n[[entrant]]\nname = \"slow\"\n");
  Trainer trainer;
  trainer.harder[9] = 0.5, trainer.of["slow"].speed = 0.8;
  const Performance dense = tune(c, c.baseline(), none, trainer.runs());
  const double target = target_of(c, dense, trainer.runs()), tuning = tuning_target_of(c, dense, trainer.runs());
  EXPECT_NEAR(tuning, 1 + 4 * std::exp(-90 / 50.0) + 0.001 + 0.5, 1e-12);
  EXPECT_EQ(trainer.asked.back().seed, c.tuning_seed);
  EXPECT_EQ(trainer.asked.back().rate, dense.rate);
  EXPECT_EQ(tune(c, c.entrants[1], target, trainer.runs()).steps, 200) << "by the mean it would be stretched";
  EXPECT_EQ(tune(c, c.entrants[1], tuning, trainer.runs()).steps, 100);
  EXPECT_EQ(tune(c, c.entrants[2], tuning, trainer.runs()).steps, 200);
  trainer.of["dense"].diverges_above = true, trainer.of["dense"].best = 0.001;
  EXPECT_THROW((void)tuning_target_of(c, dense, trainer.runs()), RuntimeFailure);
}

TEST(Race, AStatedRateAndTargetAreNotTuned) {
  Course c = course_with("[[entrant]]\nname = \"dense\"\nrate = 0.02\n[[entrant]]\nname = \"longer\"\nrate = 0.01\nhorizons = 2\n");
  c.target = 1.5;
  Trainer trainer;
  const Performance p = tune(c, c.baseline(), none, trainer.runs()), longer = tune(c, c.entrants[1], c.target, trainer.runs());
  EXPECT_EQ(p.rate, 0.02);
  EXPECT_EQ(p.steps, 100);
  EXPECT_EQ(longer.steps, 200);
  EXPECT_EQ(target_of(c, p, trainer.runs()), 1.5);
  EXPECT_EQ(tuning_target_of(c, p, trainer.runs()), 1.5);
  EXPECT_TRUE(trainer.asked.empty());
}

Performance performance(const std::string& name, std::vector<double> steps, int run) {
  Performance p;
  p.entrant = name, p.rate = 0.01, p.steps = run, p.steps_to_target = std::move(steps), p.final_loss.assign(p.steps_to_target.size(), 1.5);
  return p;
}

// A run is doubled while the course allows it: of three horizons nobody ran more than two, and no bound says more.
TEST(Leaderboard, WhoDoesNotArriveIsBoundByWhatWasRun) {
  Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"never\"\n");
  c.longest = 3;
  Times times;
  for (const char* entrant : {"dense", "never"}) times[{entrant, "fast"}] = times[{entrant, "slow"}] = {{10, 10, 10}, 1000, ""};
  const Standing never = rank(c, 1.6, {performance("dense", {80, 90, 100}, 100), performance("never", {}, 0)}, times).on("fast").at(1);
  EXPECT_NEAR(never.steps_to_target, 200, 1e-9);
  EXPECT_NE(never.remark.find("not within 2 horizons"), std::string::npos) << never.remark;
}

TEST(Leaderboard, RanksByStepsTimesStepTimeWithIntervalsOfBoth) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"coded\"\n[[entrant]]\nname = \"never\"\n");
  const std::vector<Performance> all = {performance("dense", {80, 90, 100}, 100), performance("coded", {96, 108, 120}, 200), performance("never", {}, 0)};
  Times times;
  for (const char* link : {"fast", "slow"}) {
    times[{"dense", link}] = {{10, 10, 10}, 1000, ""};
    times[{"coded", link}] = {{10, 10, 10}, 100, ""};
    times[{"never", link}] = {{1, 1, 1}, 1, ""};
  }
  times[{"dense", "slow"}].step_ms = {99, 100, 101};
  times[{"coded", "slow"}].step_ms = {20, 20, 20};
  const Leaderboard board = rank(c, 1.6, all, times);
  const std::vector<Standing> fast = board.on("fast"), slow = board.on("slow");
  EXPECT_EQ(fast[0].entrant, "dense");
  EXPECT_EQ(slow[0].entrant, "coded");
  EXPECT_EQ(fast[2].entrant, "never") << "the shortest T, which is a bound only, comes last";
  EXPECT_FALSE(fast[2].all_arrived());
  // Steps are 1.2 times those of each seed: paired, the ratio has no spread at all.
  EXPECT_NEAR(fast[1].sooner.value, 1 / 1.2, 1e-12);
  EXPECT_NEAR(fast[1].sooner.high - fast[1].sooner.low, 0, 1e-12);
  EXPECT_NEAR(fast[0].seconds.value, std::cbrt(80.0 * 90 * 100) / 100, 1e-12);
  // Student's t of 2 degrees of freedom: 4.302653 s / sqrt(3), of logarithms.
  const double logs[] = {std::log(80), std::log(90), std::log(100)}, mean = (logs[0] + logs[1] + logs[2]) / 3;
  double squares = 0;
  for (const double l : logs) squares += (l - mean) * (l - mean);
  EXPECT_NEAR(std::log(fast[0].seconds.high / fast[0].seconds.value), 4.302653 * std::sqrt(squares / 2 / 3), 1e-6);
  EXPECT_NEAR(slow[0].sooner.value, 100 * std::exp((std::log(99) + std::log(101) + std::log(100)) / 3 - std::log(100)) / 20 / 1.2, 1e-9);
  EXPECT_EQ(fast[0].verdict + ", " + fast[1].verdict + ", " + fast[2].verdict, "baseline, later, not arrived");
  EXPECT_EQ(slow[0].verdict, "sooner");
  EXPECT_EQ(answers(board)[0], "On fast nothing reaches 1.6 nats sooner than dense.");
  EXPECT_TRUE(answers(board)[1].starts_with("On slow coded reaches 1.6 nats 4.17 [")) << answers(board)[1];
  const std::vector<Flip> turn = flips(board);
  ASSERT_EQ(turn.size(), 1u);
  EXPECT_EQ(turn[0].entrant + turn[0].loses_on + turn[0].wins_on, "codedfastslow");
}

TEST(Leaderboard, PairedWindowsDoNotFeelWhatSlowsAWholeRound) {
  Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"coded\"\n");
  const std::vector<Performance> all = {performance("dense", {80, 90, 100}, 100), performance("coded", {80, 90, 100}, 100)};
  Times times;
  for (const char* link : {"fast", "slow"}) times[{"dense", link}] = {{10, 12, 15}, 1, ""}, times[{"coded", link}] = {{8, 9.6, 12}, 1, ""};
  const Standing apart = rank(c, 1.6, all, times).on("fast")[0];
  EXPECT_EQ(apart.verdict, "undecided");
  c.pair_windows = true;
  const Standing paired = rank(c, 1.6, all, times).on("fast")[0];
  EXPECT_EQ(paired.entrant + " " + paired.verdict, "coded sooner");
  EXPECT_NEAR(paired.sooner.value, apart.sooner.value, 1e-12) << "the same factor";
  EXPECT_NEAR(paired.sooner.low, 1.25, 1e-12);
  EXPECT_NEAR(paired.sooner.high, 1.25, 1e-12);
  EXPECT_EQ(paired.seconds.low, apart.seconds.low) << "its own time is as uncertain as before";
  EXPECT_EQ(paired.remark, "");
  times[{"coded", "fast"}].step_ms.pop_back();
  const Leaderboard board = rank(c, 1.6, all, times);
  EXPECT_EQ(board.on("fast")[0].remark, "windows without their pairs");
  EXPECT_EQ(board.on("fast")[0].verdict, "undecided");
  EXPECT_EQ(board.on("slow")[0].verdict, "sooner");
  EXPECT_NE(to_json(board, Registered{c.registered_text(), 1.6, all[0], "2026-01-02T03:04:05Z"}, all).find("\"pair_windows\": true"), std::string::npos) << "who recomputes the standings has to know";
  times[{"dense", "fast"}].step_ms.pop_back();
  EXPECT_EQ(rank(c, 1.6, all, times).on("fast")[0].remark, "windows without their pairs") << "as many, but perhaps not of the same rounds";
}

TEST(Report, AnEntrantIsSummedUpWhenItsTrainingsAreDone) {
  Performance p = performance("coded", {400, 900, std::nan("")}, 900);
  p.rate = 0.004, p.final_loss = {1.6, 1.7, 1.8};
  EXPECT_EQ(to_text(p), "reaches the target after 400, 900, never of 900 steps at a learning rate of 0.004; 2 of 3 seeds, 1.7000 nats in the end");
  p.steps = 0, p.steps_to_target.clear(), p.final_loss.clear();
  EXPECT_EQ(to_text(p), "its tuning seed does not reach the target within the longest run, at a learning rate of 0.004");
}

// The baseline once more with other seeds: what differs then is chance, and the interval is that of two independent means.
TEST(Leaderboard, OtherSeedsAreComparedWithoutPairs) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"dense again\"\nseeds = [4, 5]\n");
  Trainer trainer;
  Performance again = tune(c, c.entrants[1], 2, trainer.runs());
  run_seeds(c, c.entrants[1], 2, again, trainer.runs());
  EXPECT_EQ(again.steps_to_target.size(), 2u);
  EXPECT_EQ(trainer.asked.back().seed, 5);
  Times times;
  for (const char* link : {"fast", "slow"}) times[{"dense", link}] = times[{"dense again", link}] = {{10, 10, 10}, 1, ""};
  const Standing s = rank(c, 2, {performance("dense", {80, 90, 100}, 100), performance("dense again", {85, 95}, 100)}, times).on("fast")[1];
  EXPECT_EQ(s.seeds, 2);
  const double base = (std::log(80) + std::log(90) + std::log(100)) / 3, own = (std::log(85) + std::log(95)) / 2;
  EXPECT_NEAR(std::log(s.entrant == "dense" ? 1 : s.sooner.value), s.entrant == "dense" ? 0 : base - own, 1e-12);
  EXPECT_LT(s.sooner.low, 1);
  EXPECT_GT(s.sooner.high, 1);
  EXPECT_EQ(s.verdict, s.entrant == "dense" ? "baseline" : "undecided");
}

TEST(Leaderboard, OneSeedIsAnIndicationWithoutInterval) {
  Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"coded\"\n");
  c.seeds = {1};
  Times times;
  for (const char* link : {"fast", "slow"}) times[{"dense", link}] = {{10}, 1, ""}, times[{"coded", link}] = {{5}, 1, "a reason"};
  const Leaderboard board = rank(c, 2, {performance("dense", {100}, 100), performance("coded", {100}, 100)}, times);
  EXPECT_TRUE(std::isnan(board.on("fast")[0].sooner.low));
  EXPECT_EQ(board.on("fast")[0].remark, "a reason");
  EXPECT_NE(answers(board)[0].find("an indication"), std::string::npos) << answers(board)[0];
  const std::vector<RaceRow> rows = rows_of(board);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].place, 1);
  EXPECT_DOUBLE_EQ(rows[0].sooner, 2);
  EXPECT_NE(to_text(board).find("coded"), std::string::npos);
}

TEST(Leaderboard, SeedsThatDoNotArriveMakeABoundAndNoWinner) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"coded\"\n");
  Times times;
  for (const char* link : {"fast", "slow"}) times[{"dense", link}] = {{10, 10, 10}, 1, ""}, times[{"coded", link}] = {{1, 1, 1}, 1, ""};
  const Leaderboard board = rank(c, 2, {performance("dense", {100, 100, 100}, 100), performance("coded", {90, none, 90}, 200)}, times);
  const Standing coded = board.on("fast")[1];
  EXPECT_EQ(coded.entrant, "coded");
  EXPECT_EQ(coded.remark, "2 of 3 seeds arrived");
  EXPECT_NEAR(coded.steps_to_target, std::cbrt(90.0 * 200 * 90), 1e-9);
  EXPECT_NE(to_text(board).find("<8.51"), std::string::npos) << to_text(board);
  EXPECT_EQ(answers(board)[0], "On fast nothing reaches 2 nats sooner than dense.");
}

// T of a baseline that did not arrive is a lower bound: nobody is later than that, and who is sooner is sooner by so much at least.
TEST(Leaderboard, NobodyIsLaterThanABaselineThatDidNotArrive) {
  Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"coded\"\n[[entrant]]\nname = \"never\"\n");
  c.horizon = 1000;
  Times times;
  for (const char* link : {"fast", "slow"}) times[{"dense", link}] = times[{"coded", link}] = times[{"never", link}] = {{10, 10, 10}, 1, ""};
  times[{"coded", "slow"}].step_ms = {5, 5, 5};
  const Leaderboard board = rank(c, 2, {performance("dense", {940, 960, none}, 1000), performance("coded", {1100, 1120, 1170}, 2000), performance("never", {none, 990, none}, 1000)}, times);
  const Standing coded = board.on("fast")[0], faster = board.on("slow")[0];
  EXPECT_LT(coded.sooner.high, 1) << "of the bound";
  EXPECT_EQ(coded.entrant + " " + coded.verdict + ", " + faster.entrant + " " + faster.verdict, "coded undecided, coded sooner");
  EXPECT_EQ(coded.remark, "dense did not reach it with 1 of 3 seeds");
  const auto of = [&](const std::string& entrant) { return *std::ranges::find(board.standings, entrant, &Standing::entrant); };
  EXPECT_EQ(of("never").verdict, "not arrived");
  EXPECT_TRUE(std::isnan(of("never").sooner.value)) << "a bound over a bound";
  EXPECT_EQ(of("dense").remark, "2 of 3 seeds arrived");
  EXPECT_EQ(answers(board)[0], "On fast nothing is shown to reach 2 nats sooner than dense, which did not reach it with 1 of 3 seeds.");
  EXPECT_TRUE(answers(board)[1].starts_with("On slow coded reaches 2 nats at least 1.71 [")) << answers(board)[1];
  EXPECT_TRUE(answers(board)[1].ends_with(" times sooner than dense (dense did not reach it with 1 of 3 seeds).")) << answers(board)[1];
  EXPECT_TRUE(flips(board).empty()) << "coded is not known to be behind anywhere";
  EXPECT_NE(to_text(board).find(">1.71"), std::string::npos) << to_text(board);
}

TEST(Leaderboard, OfOneSeedTooNobodyIsLaterThanABaselineThatDidNotArrive) {
  Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"coded\"\n");
  c.seeds = {1};
  Times times;
  for (const char* link : {"fast", "slow"}) times[{"dense", link}] = times[{"coded", link}] = {{10}, 1, ""};
  const Leaderboard board = rank(c, 2, {performance("dense", {none}, 100), performance("coded", {130}, 200)}, times);
  EXPECT_EQ(board.on("fast")[0].entrant + " " + board.on("fast")[0].verdict, "coded undecided");
  EXPECT_EQ(answers(board)[0], "On fast nothing is shown to reach 2 nats sooner than dense, which did not reach it with 1 of 1 seed.");
  EXPECT_EQ(answers(board).back(), "No entrant is shown to beat dense on any of these links.");
}

// The steps of `wide` differ so much between seeds that its interval holds 1, though its T is the shortest.
TEST(Leaderboard, TheNextComesAfterTheBestAndWhoIsUndecidedBeforeItIsNamed) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"wide\"\n[[entrant]]\nname = \"best\"\n[[entrant]]\nname = \"close\"\n");
  Times times;
  for (const char* link : {"fast", "slow"})
    for (const char* entrant : {"dense", "wide", "best", "close"}) times[{entrant, link}] = {{10, 10, 10}, 1, ""};
  const Performance dense = performance("dense", {100, 100, 100}, 100), wide = performance("wide", {50, 60, 200}, 200), best = performance("best", {90, 90, 90}, 100);
  const std::string all = answers(rank(c, 2, {dense, wide, best, performance("close", {95, 95, 95}, 100)}, times))[0];
  EXPECT_TRUE(all.starts_with("On fast best reaches 2 nats 1.11 [")) << all;
  EXPECT_TRUE(all.ends_with(" times sooner than dense, 1.06 times sooner than the next, close; wide has a shorter time but is undecided.")) << all;
  const std::string three = answers(rank(c, 2, {dense, wide, best}, times))[0];
  EXPECT_TRUE(three.ends_with(" times sooner than dense; wide has a shorter time but is undecided.")) << three;
}

TEST(Leaderboard, TheDocumentNamesEveryColumnAsTheCodeDoes) {
  const std::string page = TemporaryFolder::read(testing::source_folder() + "/docs/race.md");
  std::string table, curves;
  for (const auto& column : race_columns()) table += std::string("| ") + column.name + " | " + results::type_name(column) + " | " + column.help + " |\n";
  for (const auto& column : curve_columns()) curves += std::string("| ") + column.name + " | " + results::type_name(column) + " | " + column.help + " |\n";
  EXPECT_NE(page.find(table), std::string::npos) << table;
  EXPECT_NE(page.find(curves), std::string::npos) << curves;
}

// T of the baseline is 10 + 100 / Gbit/s seconds, of the coded run 20 + 20 / Gbit/s: equal where 80 / rate = 10. Steps are 1000, so a step in ms is T in seconds.
TEST(Leaderboard, RatesAtWhichEntrantsChangePlacesLieWhereTheirLinesMeet) {
  Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"coded\"\n[[entrant]]\nname = \"never\"\n");
  c.links = {"emulated:4gbit", "emulated:40gbit,latency=1us", "shm", "emulated:4gbit,up=1gbit", "emulated:1gbit,meter=inbound"};
  Times times;
  for (const std::string& link : c.links) {
    const double rate = link.find("40gbit") != std::string::npos ? 40 : 4;
    times[{"dense", link}] = {{10 + 100 / rate}, 1, ""}, times[{"coded", link}] = {{20 + 20 / rate}, 1, ""}, times[{"never", link}] = {{1}, 1, ""};
  }
  const Leaderboard board = rank(c, 2, {performance("dense", {1000, 1000, 1000}, 1000), performance("coded", {1000, 1000, 1000}, 1000), performance("never", {}, 0)}, times);
  const std::vector<Crossing> all = crossings(board);
  ASSERT_EQ(all.size(), 1u) << "of links with one rate for both directions alone, and of entrants that arrive";
  EXPECT_EQ(all[0].above + " " + all[0].below, "dense coded");
  EXPECT_EQ(all[0].faster_link, "emulated:40gbit,latency=1us");
  EXPECT_NEAR(all[0].gbps, 8, 1e-9);
  ASSERT_EQ(changes_of_lead(board).size(), 1u);
  EXPECT_NE(to_text(board).find("coded overtakes dense below 8 Gbit/s (interpolated"), std::string::npos) << to_text(board);
  times[{"coded", "emulated:4gbit"}].step_ms = {36};
  EXPECT_TRUE(crossings(rank(c, 2, {performance("dense", {1000, 1000, 1000}, 1000), performance("coded", {1000, 1000, 1000}, 1000)}, times)).empty());
}

TEST(Leaderboard, SaysInWordsThatNobodyBeatsTheBaseline) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"coded\"\n");
  Times times;
  for (const char* link : {"fast", "slow"}) times[{"dense", link}] = {{10, 10, 10}, 1, ""}, times[{"coded", link}] = {{20, 20, 20}, 1, ""};
  const std::vector<Performance> both = {performance("dense", {90, 90, 90}, 100), performance("coded", {90, 90, 90}, 100)};
  EXPECT_EQ(answers(rank(c, 2, both, times)).back(), "No entrant beats dense on any of these links.");
  times[{"coded", "slow"}].step_ms = {5, 5, 5};
  EXPECT_EQ(answers(rank(c, 2, both, times)).size(), 2u);
}

TEST(Race, KeepsTheMeanCurveOfSeedsThatDidNotDiverge) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n");
  const TrainRuns three = [](std::span<const LossRequest> requests) {
    std::vector<LossRun> runs(requests.size());
    runs[0].curve = {{10, 4}, {20, 2}}, runs[1].diverged = true, runs[2].curve = {{10, 5}, {20, 3}};
    return runs;
  };
  Performance p = performance("dense", {}, 100);
  run_seeds(c, c.baseline(), 2, p, three);
  ASSERT_EQ(p.curve.size(), 2u);
  EXPECT_EQ(p.curve[1].steps, 20);
  EXPECT_EQ(p.curve[0].loss, 4.5);
  EXPECT_EQ(p.curve[1].loss, 2.5);
}

TEST(Course, WhatIsRegisteredReadsBackAndChangesWithWhatTheTargetDependsOn) {
  const Course c = course_with("[[entrant]]\nname = \"dense\"\n");
  Registered r{c.registered_text(), 1.25, performance("dense", {}, 100), "2026-01-02T03:04:05Z"};
  const Registered back = registered_from(to_json(r), "file");
  EXPECT_EQ(back.course, r.course);
  EXPECT_EQ(back.target, 1.25);
  EXPECT_EQ(back.baseline.steps, 100);
  EXPECT_THROW(registered_from("{}", "file"), CorruptData);
  Course other = c;
  other.links.push_back("third"), other.windows = 9;
  EXPECT_EQ(other.registered_text(), c.registered_text());
  std::set<std::string> texts = {c.registered_text()};
  other.horizon = 200, texts.insert(other.registered_text());
  other.seeds.push_back(4), texts.insert(other.registered_text());
  other.entrants[0].settings.set("hidden", 16), texts.insert(other.registered_text());
  other.loss.parameters.set("layers", 2), texts.insert(other.registered_text());
  EXPECT_EQ(texts.size(), 5u);
}

TEST(Course, MistakesNameFileAndLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const std::string& words) {
    const std::string path = folder.write("wrong.toml", text);
    try {
      read_course(path);
      ADD_FAILURE() << "accepted: " << words;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("wrong.toml"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = head + "[[entrant]]\nname = \"dense\"\n";
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  refused(head, "no [[entrant]]");
  refused(replaced("horizon = 100", "horizon = 110"), "twice validate_every");
  refused(replaced("horizon = 100", "horizont = 100"), "did you mean `horizon`");
  refused(replaced("rates = [0.01, 0.03, 0.1]", "rates = [0.03, 0.01]"), "rates must rise");
  refused(replaced("seeds = [1, 2, 3]", "seeds = [1, 9]"), "tuning_seed");
  refused(replaced("seeds = [1, 2, 3]", "seeds = [1, 1]"), "twice");
  refused(replaced("longest = 4", "longest = 0"), "whole number");
  refused(replaced("netns:1gbit", "1gbit"), "unknown link `1gbit`");
  refused(replaced("netns:1gbit", "netns:fast"), "has no rate");
  refused(replaced("netns:1gbit", "emulated:20mbit"), "stands there twice");
  refused(replaced("emulated:20mbit", "emulated:20mbit,latencyy=1ms"), "latencyy");
  refused(replaced("longest = 4", "pair_windows = 1"), "`pair_windows` is true or false");
  refused(replaced("parameters = {hidden = 8}", "parameters = {steps = 8}"), "stated by the race");
  refused(replaced("parameters = {hidden = 8}", "parameters = {min-lr = 0}"), "stated by the race");
  refused(replaced("parameters = {pp = 4}", "parameters = {min-lr = 0}"), "stated by the race");
  refused(replaced("name = \"dense\"", "settings = {}"), "needs a `name`");
  refused(replaced("name = \"dense\"", "name = \"dense\"\nhorizons = 2"), "goes with a `rate`");
  refused(replaced("name = \"dense\"", "name = \"dense\"\nrate = 0.01\nhorizons = 2"), "wrong.toml:16: the baseline's runs are one horizon long");
  refused(head + "[[entrant]]\nname = \"a\"\n[[entrant]]\nname = \"a\"\n", "already");
  refused(head + "[[entrant]]\nname = \"a\"\n[[entrant]]\nname = \"b\"\nseeds = [9]\n", "tuning_seed");
  refused("[race", "wrong.toml:1");
}

TEST(Course, WindowsAreWholeRoundsOfTenStepsAtLeast) {
  const Course c = course_with(R"([[entrant]]
name = "dense"
[[entrant]]
name = "rounds of four"
settings = {optimizer = "adamw+diloco:inner_steps=4"}
[[entrant]]
name = "rounds of thirty"
settings = {optimizer = "adamw+local_sgd:inner_steps=30"}
)");
  EXPECT_EQ(round_of(c, c.entrants[0]), 1);
  EXPECT_EQ(window_steps(c, c.entrants[0]), 10);
  EXPECT_EQ(window_steps(c, c.entrants[1]), 12);
  EXPECT_EQ(window_steps(c, c.entrants[2]), 30);
  Course longer = c;
  longer.time.parameters.set("steps", 25);
  EXPECT_EQ(window_steps(longer, c.entrants[0]), 25);
  EXPECT_EQ(window_steps(longer, c.entrants[1]), 28);
}

TEST(Course, SettingsAreTriedBeforeAnythingRuns) {
  const std::string dense = "[[entrant]]\nname = \"dense\"\n";
  const auto complaint = [&](Course c) {
    try {
      check_settings(c);
      return std::string();
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
  };
  Course c = course_with(dense);
  c.loss.parameters = c.time.parameters = {};
  for (RunShape* shape : {&c.loss, &c.time}) {
    shape->ranks = 4;
    shape->parameters.set("pp", 4), shape->parameters.set("layers", 4);
  }
  EXPECT_EQ(complaint(c), "");
  EXPECT_FALSE(layouts_differ(c, c.entrants[0]));
  Course other = c;
  other.time.parameters.set("micro-batch", 2);
  EXPECT_TRUE(layouts_differ(other, c.entrants[0]));
  other.time.parameters.set("hidden", 64);
  EXPECT_NE(complaint(other).find("`hidden` is 64 in [time]"), std::string::npos) << complaint(other);
  other.midway = false;
  EXPECT_EQ(complaint(other), "");
  other = c, other.loss.ranks = 2;
  EXPECT_NE(complaint(other).find("tp x pp x dp is 4, but [loss] has ranks = 2"), std::string::npos) << complaint(other);
  other = c, other.entrants[0].settings.set("hiden", 64);
  EXPECT_NE(complaint(other).find("did you mean `hidden`"), std::string::npos) << complaint(other);
  other = c, other.validate_every = 10, other.entrants[0].settings.set("optimizer", "adamw+diloco:inner_steps=4");
  EXPECT_NE(complaint(other).find("no multiple of that"), std::string::npos) << complaint(other);
}

class Cells : public ::testing::Test {
 protected:
  Cells() {
    std::filesystem::create_directories(folder / "cells"), std::filesystem::create_directories(paths.resume());
    folder.write("train_gpt", "one build");
  }
  RaceCells cells(sweep::IfCodeChanged if_code_changed) { return RaceCells(course, runners.try_emplace(if_code_changed, paths, if_code_changed).first->second); }
  /// Of so many milliseconds a step; 0: nothing was measured.
  void write(const Window& window, results::Status status, double step_ms = 0) {
    const claims::CellRequest r = cells(sweep::IfCodeChanged::keep).request_of(*window.performance, window.link, window.number);
    results::CellRecord record;
    record.cell_id = results::cell_id(r.program, r.ranks, r.link, r.parameters), record.program = r.program, record.ranks = r.ranks, record.link = r.link, record.parameters = r.parameters;
    record.rows.resize(1);
    record.rows[0].cell_id = record.cell_id, record.rows[0].status = results::name_of(status);
    if (step_ms > 0) {
      results::SampleRow& sample = record.samples.emplace_back();
      sample.cell_id = record.cell_id, sample.traffic = "step", sample.total_us = 1e3 * step_ms;
    }
    record.provenance.binary_hash = results::hash_of_binary(folder / "train_gpt");
    results::write_cell_record(results::record_path(paths.out, record.cell_id), record);
  }
  std::string missing(sweep::IfCodeChanged if_code_changed, const std::vector<Window>& windows) {
    std::string names;
    for (const LossRequest& start : cells(if_code_changed).missing_states(windows)) names += start.entrant->name + " ";
    return names;
  }
  const TemporaryFolder folder;
  const sweep::RunPaths paths = {.out = folder.path(), .bin = folder.path(), .lab = ""};
  const Course course = course_with("[[entrant]]\nname = \"dense\"\n[[entrant]]\nname = \"coded\"\n[[entrant]]\nname = \"never\"\n");
  std::map<sweep::IfCodeChanged, claims::CellRunner> runners;
};

TEST_F(Cells, AStateIsMissingWhereverAWindowWillRunAndNowhereElse) {
  using sweep::IfCodeChanged;
  const Performance dense = performance("dense", {90, 90, 90}, 100), coded = performance("coded", {90, 90, 90}, 100);
  std::vector<Window> windows;
  for (const Performance* p : {&dense, &coded})
    for (const std::string& link : course.links)
      for (int i = 0; i < course.windows; ++i) windows.push_back({p, link, i});
  EXPECT_EQ(missing(IfCodeChanged::error, windows), "dense coded ") << "nothing was measured yet, and each state is made once";
  for (const Window& window : windows) write(window, results::Status::ok);
  EXPECT_EQ(missing(IfCodeChanged::error, windows), "");
  for (const results::Status status : {results::Status::skipped, results::Status::failed, results::Status::timeout}) {
    write(windows.back(), status);
    EXPECT_EQ(missing(IfCodeChanged::error, windows), "coded ") << "the runner repeats a cell that is " << results::name_of(status);
  }
  const std::string state = results::kept_state_path(paths.resume(), [&] {
    const claims::CellRequest r = cells(IfCodeChanged::keep).request_of(LossRequest{&course.entrants[1], coded.rate, coded.steps, 1});
    return results::cell_id(r.program, r.ranks, r.link, r.parameters);
  }());
  std::ofstream(state) << "a state";
  EXPECT_EQ(missing(IfCodeChanged::error, windows), "") << "it is there";
  std::filesystem::remove(state);
  write(windows.back(), results::Status::ok);
  windows.push_back({&dense, course.links[0], course.windows});
  EXPECT_EQ(missing(IfCodeChanged::error, windows), "dense ") << "a window beyond those of the course";
  windows.pop_back();
  folder.write("train_gpt", "another build");
  EXPECT_EQ(missing(IfCodeChanged::keep, windows), "");
  EXPECT_EQ(missing(IfCodeChanged::redo, windows), "dense coded ");
}

std::string id_of(const claims::CellRequest& r) { return results::cell_id(r.program, r.ranks, r.link, r.parameters); }

TEST_F(Cells, EveryRunEndsAtATenthOfItsPeakRate) {
  const RaceCells race = cells(sweep::IfCodeChanged::keep);
  for (const double rate : {0.0005, 0.03}) {
    EXPECT_DOUBLE_EQ(race.request_of(LossRequest{&course.entrants[1], rate, 100, 1}).parameters.number("min-lr"), rate / 10);
    Performance p = performance("coded", {90, 90, 90}, 100);
    p.rate = rate;
    EXPECT_DOUBLE_EQ(race.request_of(p, "fast", 0).parameters.number("min-lr"), rate / 10) << "of a timed run that begins in the middle of the schedule";
    p.final_loss.assign(3, none);
    EXPECT_DOUBLE_EQ(race.request_of(p, "fast", 0).parameters.number("min-lr"), rate / 10) << "and of one that does not";
  }
}

// Warm-ups and freezes are over there, as in the middle of a race run.
TEST_F(Cells, WhoNeverArrivesIsTimedFromTheMiddleOfItsLongestTuningRun) {
  const RaceCells race = cells(sweep::IfCodeChanged::keep);
  Performance never = performance("never", {}, 0);
  never.tried = {{0.01, 50, 3}, {0.03, 50, 3.5}, {0.01, 100, 2.5}, {0.01, 200, 2.4}, {0.01, 400, 2.3}};
  const auto tuning = [&](int steps) { return race.request_of(LossRequest{&course.entrants[2], 0.01, steps, course.tuning_seed}); };
  EXPECT_EQ(tuning(400).parameters.integer("keep-at"), 200);
  for (const int steps : {50, 100, 200}) EXPECT_FALSE(tuning(steps).parameters.has("keep-at")) << "a run that others follow";
  const claims::CellRequest timed = race.request_of(never, "fast", 0);
  EXPECT_EQ(timed.parameters.text("resume"), "kept:" + id_of(tuning(400)));
  EXPECT_EQ(timed.parameters.integer("schedule-steps"), 400);
  EXPECT_EQ(timed.parameters.integer("warmup"), 40);
  EXPECT_EQ(timed.parameters.integer("seed"), course.tuning_seed);
  EXPECT_EQ(missing(sweep::IfCodeChanged::error, {{&never, "fast", 0}}), "never ");
  never.tried.back().loss = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(race.request_of(never, "fast", 0).parameters.has("resume"));
  EXPECT_EQ(missing(sweep::IfCodeChanged::error, {{&never, "fast", 0}}), "");
}

TEST_F(Cells, ATimeFromInitialWeightsSaysSo) {
  const Performance dense = performance("dense", {90, 90, 90}, 100), never = performance("never", {}, 0);
  for (const Performance* p : {&dense, &never})
    for (const std::string& link : course.links)
      for (int i = 0; i < course.windows; ++i) write({p, link, i}, results::Status::ok, 10);
  claims::CellRunner collected(paths, sweep::IfCodeChanged::keep);
  collected.answer_from(results::collect(folder.path()).path);
  Times times = RaceCells(course, collected).time({dense, never});
  EXPECT_EQ((times[{"dense", "fast"}].step_ms), (std::vector<double>{10, 10, 10}));
  EXPECT_EQ((times[{"dense", "fast"}].distrust), "");
  EXPECT_EQ((times[{"never", "slow"}].distrust), "timed from its initial weights");
}

TEST_F(Cells, WindowsAreAddedWhereTheyDisagreeButNotWhereTheyArePaired) {
  const Performance dense = performance("dense", {90, 90, 90}, 100), coded = performance("coded", {90, 90, 90}, 100);
  for (const Performance* p : {&dense, &coded})
    for (const std::string& link : course.links)
      for (int i = 0; i < 6; ++i) write({p, link, i}, results::Status::ok, p == &dense ? 10 : std::vector{8, 9, 8, 8, 9, 8}[static_cast<std::size_t>(i)]);
  claims::CellRunner collected(paths, sweep::IfCodeChanged::keep);
  collected.answer_from(results::collect(folder.path()).path);
  Course c = course;
  Times times = RaceCells(c, collected).time({dense, coded});
  EXPECT_EQ((times[{"coded", "fast"}].step_ms), (std::vector<double>{8, 9, 8})) << "the last three of six";
  EXPECT_NE((times[{"coded", "fast"}].distrust.find("windows differ by 12.5 %")), std::string::npos);
  c.windows = 4, c.pair_windows = true;
  times = RaceCells(c, collected).time({dense, coded});
  EXPECT_EQ((times[{"coded", "fast"}].step_ms), (std::vector<double>{8, 9, 8, 8})) << "all of them";
  EXPECT_EQ((times[{"coded", "fast"}].distrust.find("windows differ")), std::string::npos);
}

TEST_F(Cells, TheBaselineDoesNotRaceAtAnotherRateThanTheRegisteredOne) {
  RaceCells race = cells(sweep::IfCodeChanged::redo);
  std::filesystem::remove(folder / "train_gpt");  // what is not refused gets as far as to miss it
  const auto complaint = [&](int entrant, double rate, int seed) -> std::string {
    const LossRequest request{&course.entrants[static_cast<std::size_t>(entrant)], rate, 100, seed};
    try {
      race.train({&request, 1});
    } catch (const claims::Refused& refused) {
      return refused.error.code() == ExitCode::environment ? "no program" : refused.error.what();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(0, 0.03, 1), "no program") << "nothing is registered yet";
  folder.write("registered.json", to_json(Registered{course.registered_text(), 2, performance("dense", {}, 100), "2026-01-02T03:04:05Z"}));
  EXPECT_EQ(complaint(0, 0.01, 1), "no program");
  EXPECT_EQ(complaint(0, 0.03, course.tuning_seed), "no program");
  EXPECT_EQ(complaint(1, 0.03, 1), "no program");
  const std::string refusal = complaint(0, 0.03, 1);
  for (const char* words : {"registered.json", "learning rate 0.01", "chose 0.03", "another folder"}) EXPECT_NE(refusal.find(words), std::string::npos) << refusal;
}

TEST(Course, EntrantsOfAnotherFileJoin) {
  const TemporaryFolder folder;
  Course c = read_course(folder.write("course.toml", head + "[[entrant]]\nname = \"dense\"\n"));
  add_entrants(c, folder.write("mine.toml", "[[entrant]]\nname = \"mine\"\nsettings = {\"compress.pp_forward\" = \"group\"}\n"));
  ASSERT_EQ(c.entrants.size(), 2u);
  EXPECT_EQ(c.entrants[1].settings.text("compress.pp_forward"), "group");
  EXPECT_THROW(add_entrants(c, folder.write("mine.toml", "[race]\nname = \"x\"\n")), UsageError);
}

}  // namespace
}  // namespace thinwire::race
