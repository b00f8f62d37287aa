// labels: unit
// timeout: 300
// The race of subspace networks: every training that it asks for is one that train_gpt takes; runs are stretched until they reach the target; verdicts follow steps times walked steps; and those are the
// contest's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/claims/low_bandwidth_pipeline/cells/raced.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"
#include "tests/experiments/claims/made_up_cells.h"

namespace thinwire::claims {
namespace {

using namespace low_bandwidth_pipeline;
using thinwire::testing::cells_in;

std::string text(const CellRequest& request, const std::string& name) { return results::to_text(request.parameters.values().at(name)); }

void expect_that_it_exists(const CellRequest& request) {
  CellRequest plain = request;
  results::Parameters options;
  for (const auto& [name, value] : request.parameters.values())
    if (name != "plan") options.set(name, value);
  plain.parameters = options;
  EXPECT_NO_THROW((void)sharded_compression::config_of(plain)) << text(request, "plan");
}

struct Made {
  Outcome outcome;
  std::vector<CellRequest> cells;
};

/// What a claim makes of curves of one shape: an arm takes `slower` times as many steps as the dense one to a loss, seeds a little more or less, of those in `late` so many times as many; the learning rate
/// 0.01 is the best.
Made made(const std::string& id, const std::map<std::string, double>& slower, const std::map<std::pair<std::string, int>, double>& late = {}) {
  const Claim& claim = *claims_named(id).front();
  const thinwire::testing::TemporaryFolder folder;
  Made all;
  for (bool planned = false; !planned;) {
    CellRunner cells = cells_in(folder.path());
    PlannedWork work;
    cells.only_plan(work);
    JudgeContext context{Profile::full, folder.path(), cells};
    context.set_seeds(5);
    try {
      const Finding found = claim.measure(context);
      const Decision decision = decide(claim.rule, found.measures);
      all.outcome = {decision.verdict, decision.because, found.measures, found.tables};
      planned = true;
    } catch (const PlanEnds&) {
      EXPECT_FALSE(work.cells.empty());
      for (const CellRequest& request : work.cells) {
        expect_that_it_exists(request);
        all.cells.push_back(request);
        results::CellRecord record;
        record.program = request.program, record.ranks = request.ranks, record.link = request.link, record.parameters = request.parameters;
        record.cell_id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
        record.rows.emplace_back().cell_id = record.cell_id;
        const int seed = std::stoi(text(request, "seed"));
        const auto found = slower.find(text(request, "plan"));
        const auto later = late.find({text(request, "plan"), seed});
        const double factor = (found == slower.end() ? 1 : found->second) * (later == late.end() ? 1 : later->second) * (1 + 0.004 * (seed % 5)) * (text(request, "learning-rate") == "0.01" ? 1 : 1.5);
        for (int step = 20; step <= std::stoi(text(request, "steps")); step += 20) {
          const double loss = 1.5 + std::exp(-step / (500 * factor));
          record.training.curve.push_back({record.cell_id, text(request, "plan"), step - 1, loss, loss});
        }
        results::write_cell_record(results::record_path(folder.path(), record.cell_id), record);
      }
    }
  }
  return all;
}

double value_of(const Outcome& outcome, const std::string& symbol) {
  const auto found = std::ranges::find(outcome.measures, symbol, &Measure::symbol);
  EXPECT_NE(found, outcome.measures.end()) << symbol;
  return found == outcome.measures.end() ? no_number : found->value;
}

int longest(const Made& made, const std::string& plan) {
  int most = 0;
  for (const CellRequest& request : made.cells)
    if (text(request, "plan") == plan) most = std::max(most, std::stoi(text(request, "steps")));
  return most;
}

const char* const ssn = "subspace, 10 of 64";

TEST(SubspaceRace, RunsAreStretchedUntilTheyReachTheTarget) {
  const Made slow = made("low_bandwidth_pipeline.C8", {{ssn, 3.1}});
  EXPECT_EQ(slow.outcome.verdict, Verdict::confirmed) << slow.outcome.because;
  EXPECT_NEAR(value_of(slow.outcome, "steps"), 3.1, 0.05);
  EXPECT_EQ(longest(slow, ssn), 4 * race_horizon);
  EXPECT_EQ(longest(slow, "dense"), race_horizon);
  const Made alike = made("low_bandwidth_pipeline.C8", {{ssn, 1.02}});
  EXPECT_EQ(alike.outcome.verdict, Verdict::not_reproduced) << alike.outcome.because;
  EXPECT_EQ(longest(alike, ssn), race_horizon);
  const Made never = made("low_bandwidth_pipeline.C8", {{ssn, 50}});
  EXPECT_EQ(never.outcome.verdict, Verdict::confirmed) << "at least eight horizons";
  EXPECT_EQ(value_of(never.outcome, "ssn_missing"), 5);
}

double steps_of(const Made& made, const std::string& arm, int seed) {
  if (made.outcome.tables.empty()) return no_number;
  const Table& steps = made.outcome.tables.front();
  const auto row = std::ranges::find(steps.rows, arm, &Table::Row::label);
  const auto column = std::ranges::find(steps.columns, "seed " + std::to_string(seed));
  if (row == steps.rows.end() || column == steps.columns.end()) return no_number;
  return row->values.at(static_cast<std::size_t>(column - steps.columns.begin()));
}

int runs_longer_than(const Made& made, const std::string& plan, int steps) {
  std::set<std::string> seeds;
  for (const CellRequest& request : made.cells)
    if (text(request, "plan") == plan && std::stoi(text(request, "steps")) > steps) seeds.insert(text(request, "seed"));
  return static_cast<int>(seeds.size());
}

// The tuning seed arrives within two horizons, seed 4 does not: it alone runs again.
TEST(SubspaceRace, ASeedThatDoesNotArriveRunsAgainTwiceAsLong) {
  const Made one = made("low_bandwidth_pipeline.C8", {{ssn, 1.9}}, {{{ssn, 4}, 1.3}});
  EXPECT_EQ(longest(one, ssn), 4 * race_horizon);
  EXPECT_EQ(runs_longer_than(one, ssn, 2 * race_horizon), 1);
  EXPECT_EQ(value_of(one.outcome, "ssn_missing"), 0);
  EXPECT_NEAR(steps_of(one, ssn, 4) / steps_of(one, ssn, 3), 1.3, 0.03);
  EXPECT_LE(steps_of(one, ssn, 3), 2 * race_horizon);
}

TEST(SubspaceRace, ASeedThatNeverArrivesCountsAsItsLongestRun) {
  const Made one = made("low_bandwidth_pipeline.C8", {{ssn, 1.9}}, {{{ssn, 4}, 50}});
  EXPECT_EQ(value_of(one.outcome, "ssn_missing"), 1);
  EXPECT_EQ(steps_of(one, ssn, 4), longest_race * race_horizon);
}

// Seeds 1 to 5 are the dense arm's first set, 11 to 15 its second. One that is a little late is no reason to decide nothing, one that never arrives is.
TEST(SubspaceRace, WithoutAllDenseSeedsNothingIsDecided) {
  for (const char* id : {"low_bandwidth_pipeline.C8", "low_bandwidth_pipeline.C10"}) {
    EXPECT_EQ(made(id, {{ssn, 3.1}}).outcome.verdict, Verdict::confirmed) << id;
    const Made late = made(id, {{ssn, 3.1}}, {{{"dense", 3}, 1.2}, {{"dense", 13}, 1.2}});
    EXPECT_EQ(late.outcome.verdict, Verdict::confirmed) << id << ": " << late.outcome.because;
    EXPECT_GT(steps_of(late, "dense", 3), race_horizon) << id;
    EXPECT_EQ(longest(late, "dense"), 2 * race_horizon) << id;
    const Outcome first = made(id, {{ssn, 3.1}}, {{{"dense", 3}, 50}}).outcome, second = made(id, {{ssn, 3.1}}, {{{"dense", 13}, 50}}).outcome;
    EXPECT_EQ(first.verdict, Verdict::not_decidable) << id << ": " << first.because;
    EXPECT_EQ(value_of(first, "dense_missing"), 1) << id;
    EXPECT_EQ(second.verdict, Verdict::not_decidable) << id << ": " << second.because;
    EXPECT_EQ(value_of(second, "twin_missing"), 1) << id << ": a control that passes by its wide interval is none";
    EXPECT_EQ(value_of(second, "dense_missing"), 0) << id;
  }
}

// One arm that scatters does not hide what the other one shows.
TEST(SubspaceRace, EitherQuantiserWinsByItself) {
  const Made one = made("low_bandwidth_pipeline.C10", {{ssn, 5}, {"4 bits", 1.2}}, {{{"4 bits", 1}, 0.5}, {{"4 bits", 4}, 3}});
  EXPECT_EQ(one.outcome.verdict, Verdict::confirmed) << one.outcome.because;
}

TEST(SubspaceRace, TimeIsStepsTimesAWalkedStep) {
  const RacedArm dense = dense_arm(), subspace = subspace_arm("ssn", ssn, 10);
  for (const char* part : {"", "b"}) {
    const RaceLink link = *part ? RaceLink::cards : RaceLink::meter;
    const double shorter = race_step(dense, link) / race_step(subspace, link);
    EXPECT_GT(shorter, 3);
    ASSERT_LT(1.3 * shorter, longest_race) << "else no run could lose this race";
    const std::string id = std::string("low_bandwidth_pipeline.C7") + part;
    EXPECT_EQ(made(id, {{ssn, 0.8 * shorter}}).outcome.verdict, Verdict::confirmed) << id;
    EXPECT_EQ(made(id, {{ssn, 1.3 * shorter}}).outcome.verdict, Verdict::not_reproduced) << id;
  }
  const double eight = race_step(coded_arm("int8", "8 bits", "group:bits=8,group=64"), RaceLink::meter) / race_step(subspace, RaceLink::meter);
  EXPECT_EQ(made("low_bandwidth_pipeline.C10", {{ssn, 3.1}}).outcome.verdict, Verdict::confirmed) << "plain quantisation that costs no steps";
  EXPECT_NEAR(value_of(made("low_bandwidth_pipeline.C10", {{ssn, 3.1}}).outcome, "int8_time"), eight / 3.1, 0.05);
  EXPECT_EQ(made("low_bandwidth_pipeline.C10", {{ssn, 1}, {"8 bits", 1.5}, {"4 bits", 2.5}}).outcome.verdict, Verdict::not_reproduced);
}

// Without computing a step is 2m + 2P - 5 message times; computing of half a second comes on top.
TEST(SubspaceRace, AStepIsTheContestsByItsBytes) {
  const double rate = 200e6 * (128.0 * 4096) / (2048.0 * 524288);
  const auto least = [&](double bytes_of_token) {
    double best = INFINITY;
    for (const int m : {4, 8, 16, 32, 64}) best = std::min(best, messages_of_1f1b(4, m) * (8 * (bytes_of_token * 4096 / m + 8) / rate + 0.05));
    return best;
  };
  for (const auto& [arm, bytes] : {std::pair{dense_arm(), 128.0}, {subspace_arm("ssn", ssn, 10), 20.0}, {coded_arm("int8", "8 bits", "group:bits=8,group=64"), 68.0}}) {
    EXPECT_GT(race_step(arm, RaceLink::meter), 0.999 * least(bytes)) << arm.arm.name;
    EXPECT_LT(race_step(arm, RaceLink::meter), 1.05 * least(bytes) + 1.5) << arm.arm.name;
    EXPECT_LT(race_step(arm, RaceLink::cards), race_step(arm, RaceLink::meter));
  }
}

TEST(SubspaceRace, LossesInAsManyStepsAreOfTrainingsThatExist) {
  std::size_t trainings = 0;
  for (const char* id : {"low_bandwidth_pipeline.C9", "low_bandwidth_pipeline.C9b"})
    for (const CellRequest& request : thinwire::testing::cells_of_claim(*claims_named(id).front(), 5)) expect_that_it_exists(request), ++trainings;
  EXPECT_EQ(trainings, 30u) << "five rates of three arms, twice";
}

}  // namespace
}  // namespace thinwire::claims
