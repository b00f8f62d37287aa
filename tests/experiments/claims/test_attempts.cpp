// labels: unit
// needs: launch_player
// Timed cells that were measured while others took the machine are repeated by rule. The disturbance is played (tests/programs/launch_player.cpp), never
// measured: nothing here depends on this machine's load.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "experiments/claims/attempts.h"
#include "experiments/claims/cells.h"
#include "experiments/claims/judge.h"
#include "models/optimizer/diverged.h"
#include "results/collect.h"
#include "support/temporary_folder.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::message_of;
using thinwire::testing::TemporaryFolder;

CellRequest request(const std::string& value, const std::string& disturbance, bool timed = true) {
  CellRequest r;
  r.program = "launch_player";
  r.parameters.set("value", value);
  if (!disturbance.empty()) r.parameters.set("disturbance", disturbance);
  r.timeout = 60;
  r.timed = timed;
  return r;
}

class Attempts : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  const char* const build = std::getenv("THINWIRE_BUILD_DIR");
  CellRunner cells = runner();

  CellRunner runner(sweep::IfCodeChanged if_changed = sweep::IfCodeChanged::error) {
    sweep::RunPaths paths;
    paths.out = folder.path();
    paths.bin = std::string(build != nullptr ? build : ".") + "/tests/programs";
    return {paths, if_changed};
  }
  /// How often a program measured cells here.
  int measurements() const {
    std::ifstream ran(folder / "ran.txt");
    return static_cast<int>(std::count(std::istreambuf_iterator<char>(ran), {}, '\n'));
  }
  std::size_t aside() const {
    if (!std::filesystem::exists(folder / "attempts")) return 0;
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder / "attempts"), {}));
  }
  const UsedCell& used() const { return cells.used().back(); }
  std::string path_of(const results::CellRecord& record) const { return results::record_path(folder.path(), record.cell_id); }
  std::string aside_of(const results::CellRecord& record, int number) const {
    return folder / ("attempts/" + record.cell_id + "." + std::to_string(number) + ".h5");
  }
};

TEST_F(Attempts, AQuietCellIsMeasuredOnce) {
  const results::CellRecord record = cells.run_one(request("quiet", "0.05"));
  EXPECT_EQ(measurements(), 1);
  EXPECT_EQ(aside(), 0u);
  ASSERT_EQ(record.training.attempts.size(), 1u);
  EXPECT_TRUE(used().timed);
  EXPECT_EQ(used().disturbance, 0.05) << "the limit itself is no disturbance";
  EXPECT_EQ(used().attempts, 1);
}

TEST_F(Attempts, ADisturbedCellIsRepeatedUntilItIsQuietAndAllAttemptsStay) {
  const results::CellRecord record = cells.run_one(request("busy", "0.3 0.01"));
  EXPECT_EQ(measurements(), 2);
  ASSERT_EQ(record.training.attempts.size(), 2u);
  const auto& attempts = record.training.attempts;
  EXPECT_EQ(attempts[0].attempt, 1);
  EXPECT_EQ(attempts[0].used, 0);
  EXPECT_EQ(attempts[0].disturbance_cores, 0.3);
  EXPECT_EQ(attempts[1].attempt, 2);
  EXPECT_EQ(attempts[1].used, 1);
  EXPECT_EQ(attempts[1].disturbance_cores, 0.01);
  EXPECT_EQ(attempts[1].launch, record.provenance.launch);
  EXPECT_EQ(used().disturbance, 0.01);
  EXPECT_EQ(used().attempts, 2);
  EXPECT_EQ(aside(), 2u);
  EXPECT_EQ(disturbance_of(results::read_cell_record(aside_of(record, 1))), 0.3) << "what was set aside is whole";
  EXPECT_EQ(disturbance_of(results::read_cell_record(aside_of(record, 2))), 0.01);

  const std::string bytes = TemporaryFolder::read(path_of(record));
  CellRunner again = runner();
  EXPECT_EQ(again.run_one(request("busy", "0.3 0.01")).training.attempts.size(), 2u);
  EXPECT_EQ(measurements(), 2) << "what counts is not measured again";
  EXPECT_EQ(TemporaryFolder::read(path_of(record)), bytes) << "nor written again";
}

TEST_F(Attempts, WhereNoneIsQuietTheLeastDisturbedOneCounts) {
  const results::CellRecord record = cells.run_one(request("never", "0.3 0.2 0.4 0"));
  EXPECT_EQ(measurements(), attempts_allowed);
  ASSERT_EQ(record.training.attempts.size(), 3u);
  EXPECT_EQ(disturbance_of(record), 0.2);
  EXPECT_EQ(record.training.attempts[1].used, 1);
  EXPECT_EQ(record.training.attempts[1].own_cpu_s, 2) << "the second attempt";
  EXPECT_EQ(record.provenance.launch, record.training.attempts[1].launch);
  EXPECT_EQ(used().disturbance, 0.2);
  EXPECT_EQ(used().attempts, 3);
  EXPECT_EQ(aside(), 3u);
  CellRunner again = runner();
  EXPECT_EQ(disturbance_of(again.run_one(request("never", "0.3 0.2 0.4 0"))), 0.2);
  EXPECT_EQ(measurements(), 3) << "three in all, however often it is asked for";
}

TEST_F(Attempts, LossesDoNotCare) {
  const CellRequest loss = request("loss", "0.9 0.01", false);
  EXPECT_EQ(disturbance_of(cells.run_one(loss)), 0.9);
  EXPECT_EQ(measurements(), 1);
  EXPECT_EQ(aside(), 0u);
  EXPECT_FALSE(used().timed);
  // The same cell for a claim whose times count.
  EXPECT_EQ(disturbance_of(cells.run_one(request("loss", "0.9 0.01"))), 0.01);
  EXPECT_EQ(measurements(), 2);
  ASSERT_EQ(cells.used().size(), 1u);
  EXPECT_TRUE(used().timed);
  EXPECT_EQ(used().disturbance, 0.01);
}

TEST_F(Attempts, WhatNobodyMeasuredIsUnknownAndNotRepeated) {
  (void)cells.run_one(request("older record", ""));
  EXPECT_TRUE(std::isnan(used().disturbance));
  EXPECT_EQ(used().attempts, 0);
  (void)cells.run_one(request("too short to tell", "unknown 0"));
  EXPECT_TRUE(std::isnan(used().disturbance));
  EXPECT_EQ(used().attempts, 1);
  EXPECT_EQ(measurements(), 2);
  EXPECT_EQ(aside(), 0u);
}

// Killed after an attempt was set aside: its cell has no record, and goes on with what it has.
TEST_F(Attempts, ARestartCountsWhatWasSetAside) {
  const CellRequest asked = request("killed", "0.3 0.2 0.1 0");
  const results::CellRecord first = cells.run_one(request("killed", "0.3 0.2 0.1 0", false));
  std::filesystem::create_directories(folder / "attempts");
  std::filesystem::rename(path_of(first), aside_of(first, 1));
  CellRunner again = runner();
  const results::CellRecord record = again.run_one(asked);
  EXPECT_EQ(measurements(), 3);
  EXPECT_EQ(record.training.attempts.size(), 3u);
  EXPECT_EQ(disturbance_of(record), 0.1);
}

// Killed between the copy of the last attempt and the record that counts: the copy is no further attempt.
TEST_F(Attempts, ARestartTakesNoAttemptForTwo) {
  const results::CellRecord record = cells.run_one(request("killed", "0.3 0.2 0.4"));
  std::filesystem::copy_file(aside_of(record, 3), path_of(record), std::filesystem::copy_options::overwrite_existing);
  CellRunner again = runner();
  const results::CellRecord after = again.run_one(request("killed", "0.3 0.2 0.4"));
  EXPECT_EQ(measurements(), 3);
  EXPECT_EQ(aside(), 3u);
  ASSERT_EQ(after.training.attempts.size(), 3u);
  EXPECT_EQ(disturbance_of(after), 0.2);
}

TEST_F(Attempts, ARecordThatLeftItsAttemptsBehindCountsAsItIs) {
  const results::CellRecord record = cells.run_one(request("copied", "0.3 0.2 0.4"));
  std::filesystem::remove_all(folder / "attempts");
  CellRunner again = runner();
  EXPECT_EQ(again.run_one(request("copied", "0.3 0.2 0.4")).training.attempts.size(), 3u);
  EXPECT_EQ(measurements(), 3);
  EXPECT_EQ(again.used().back().disturbance, 0.2);
}

TEST_F(Attempts, AttemptsOfAnotherBuildStayAndDoNotCount) {
  results::CellRecord other = cells.run_one(request("build", "0.3 0.2 0.01", false));
  other.provenance.binary_hash = std::string(64, '7');
  other.provenance.launch = "of another build";
  results::write_cell_record(aside_of(other, 1), other);
  const results::CellRecord record = cells.run_one(request("build", "0.3 0.2 0.01"));
  EXPECT_EQ(measurements(), 3) << "three of this build";
  EXPECT_EQ(record.training.attempts.size(), 3u);
  EXPECT_EQ(aside(), 4u);
  EXPECT_EQ(disturbance_of(record), 0.01);
}

TEST_F(Attempts, AreToldByACollectedFile) {
  const CellRequest asked = request("collected", "0.3 0.2 0.4");
  (void)cells.run_one(asked);
  const std::string collected = results::collect(folder.path()).path;
  CellRunner reader = runner();
  reader.answer_from(collected);
  EXPECT_EQ(reader.run_one(asked).training.attempts.size(), 3u);
  EXPECT_EQ(reader.used().back().disturbance, 0.2);
  EXPECT_EQ(reader.used().back().attempts, 3);
  EXPECT_TRUE(reader.used().back().timed);
  EXPECT_EQ(measurements(), 3) << "nothing is run";
  TemporaryFolder elsewhere;
  sweep::RunPaths paths = cells.paths();
  paths.out = elsewhere.path();
  CellRunner other(paths, sweep::IfCodeChanged::error);
  const CellRequest more = request("more", "0.01");
  (void)other.run_one(more);
  EXPECT_THROW((void)reader.run_one(more), NotCollected);
  reader.answer_from(results::collect(elsewhere.path()).path);
  EXPECT_EQ(reader.run_one(more).training.attempts.size(), 1u) << "files add up";
  EXPECT_EQ(reader.run_one(asked).training.attempts.size(), 3u);
}

TEST_F(Attempts, ACollectedFileCountsAsMeasuredInAnotherFolder) {
  const CellRequest before = request("before", "0.3 0.2 0.4"), now = request("now", "0.01");
  const results::CellRecord first = cells.run_one(before);
  const std::string collected = results::collect(folder.path()).path;
  std::filesystem::create_directories(folder / "rules");
  std::ofstream(folder / "rules/0a.lock") << "the rules of then";
  TemporaryFolder elsewhere;
  sweep::RunPaths paths = cells.paths();
  paths.out = elsewhere.path();
  CellRunner goes_on(paths, sweep::IfCodeChanged::error);
  goes_on.begin_with(collected);
  const std::vector<CellRequest> asked = {before, now};
  const std::vector<results::CellRecord> records = goes_on.run(asked);
  EXPECT_EQ(records[0].provenance.started, first.provenance.started);
  EXPECT_EQ(records[0].training.attempts.size(), 3u);
  EXPECT_EQ(results::read_cell_record(results::record_path(elsewhere.path(), first.cell_id)).parameters.canonical_json(), before.parameters.canonical_json());
  std::ifstream ran(elsewhere / "ran.txt");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(ran), {}), "now\n") << "the other is run";
  std::ifstream rules(elsewhere / "rules/0a.lock");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(rules), {}), "the rules of then") << "the registers that cells were made under come with them";
}

/// A claim that measures these cells and whose number is 1.
class Verdicts : public Attempts {
 protected:
  Judged judged(std::vector<CellRequest> requests, const std::string& confirmed_when, Verdict otherwise = Verdict::not_reproduced) {
    Claim claim;
    claim.id = "x.C1";
    claim.basis = Basis::emulated_link;
    claim.rule.quantities = {{"x", "a number"}};
    claim.rule.clauses = {{Verdict::confirmed, confirmed_when}};
    claim.rule.otherwise = otherwise;
    claim.measure = [requests](JudgeContext& context) {
      (void)context.cells.run(requests);
      return Finding{{{"x", 1, no_number, no_number, no_number, "", "x"}}, {}, "", std::nullopt};
    };
    JudgeContext context(Profile::smoke, folder.path(), cells);
    return judge(claim, context, Registry{});
  }
};

TEST_F(Verdicts, ATrainingThatDivergedIsUnstableAndNotRunAgain) {
  CellRequest request = claims::request(std::string(diverged_mark) + "the loss is not finite at step 3", "", false);
  request.parameters.set("act", "throw");
  const Judged first = judged({request}, "x == 1");
  EXPECT_EQ(first.outcome.verdict, Verdict::unstable) << first.outcome.because;
  EXPECT_NE(first.outcome.because.find("step 3"), std::string::npos) << first.outcome.because;
  const int measured = measurements();
  cells = runner();
  EXPECT_EQ(judged({request}, "x == 1").outcome.verdict, Verdict::unstable);
  EXPECT_EQ(measurements(), measured);
  EXPECT_EQ(used().cell_id.size(), 64u) << "the verdict names its cell";
}

TEST_F(Verdicts, AnyOtherFailureIsInvalid) {
  CellRequest request = claims::request("a full disk", "", false);
  request.parameters.set("act", "throw");
  EXPECT_EQ(judged({request}, "x == 1").outcome.verdict, Verdict::invalid);
}

TEST_F(Verdicts, OfAQuietMachineIsTheRules) {
  const Judged j = judged({request("a", "0.3 0.01"), request("b", "0.9", false)}, "x > 0");
  EXPECT_EQ(name_of(j.outcome.verdict), "CONFIRMED");
  EXPECT_EQ(j.outcome.because.find("DISTURBED"), std::string::npos) << j.outcome.because;
}

TEST_F(Verdicts, OfTimesOfADisturbedMachineIsInvalid) {
  const Judged j = judged({request("a", "0.3"), request("b", "0"), request("c", "0.9", false)}, "x > 0");
  EXPECT_EQ(name_of(j.outcome.verdict), "INVALID");
  EXPECT_TRUE(j.outcome.because.starts_with("1 of 2 timed cells DISTURBED (up to 0.30 core, 3 attempts each); by these numbers CONFIRMED: ")) << j.outcome.because;
}

TEST_F(Verdicts, AFailStaysAFail) {
  const Judged j = judged({request("a", "0.3")}, "x > 2", Verdict::fail);
  EXPECT_EQ(name_of(j.outcome.verdict), "FAIL");
  EXPECT_NE(j.outcome.because.find("1 of 1 timed cells DISTURBED"), std::string::npos) << j.outcome.because;
}

TEST_F(Verdicts, SayForHowManyCellsNobodyKnows) {
  const Judged j = judged({request("a", ""), request("b", "0")}, "x > 0");
  EXPECT_EQ(name_of(j.outcome.verdict), "CONFIRMED");
  EXPECT_TRUE(j.outcome.because.ends_with("; disturbance was not measured for 1 of 2 timed cells")) << j.outcome.because;
}

}  // namespace
}  // namespace thinwire::claims
