// labels: unit
// needs: launch_player
// Timed cells that were measured while others took the machine are repeated by rule; what keeps cells from starting is no verdict; a plan names the cells
// that a run starts. The disturbance is played (tests/programs/launch_player.cpp), never measured: nothing here depends on this machine's load.
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
#include "experiments/claims/plan.h"
#include "models/optimizer/diverged.h"
#include "results/collect.h"
#include "results/provenance.h"
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

  /// Of this folder, which the runner before it has to leave first: `cells = runner()`.
  CellRunner runner(sweep::IfCodeChanged if_changed = sweep::IfCodeChanged::error) { return runner_in(folder, if_changed); }
  CellRunner runner_in(const TemporaryFolder& out, sweep::IfCodeChanged if_changed = sweep::IfCodeChanged::error) const {
    sweep::RunPaths paths;
    paths.out = out.path();
    paths.bin = std::string(build != nullptr ? build : ".") + "/tests/programs";
    return {paths, if_changed};
  }
  /// How often a program measured cells here.
  int measurements() const { return measurements_in(folder); }
  static int measurements_in(const TemporaryFolder& out) {
    std::ifstream ran(out / "ran.txt");
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
  /// Another build's, or with another status, as if it had been written so.
  void rewrite(results::CellRecord record, const std::string& binary_hash, const std::string& status, const std::string& reason) const {
    if (!binary_hash.empty()) record.provenance.binary_hash = binary_hash;
    record.rows.front().status = status, record.rows.front().reason = reason;
    results::write_cell_record(path_of(record), record);
  }
  const std::string other_build = std::string(64, '7');
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
  cells = runner();
  EXPECT_EQ(cells.run_one(request("busy", "0.3 0.01")).training.attempts.size(), 2u);
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
  cells = runner();
  EXPECT_EQ(disturbance_of(cells.run_one(request("never", "0.3 0.2 0.4 0"))), 0.2);
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
  cells = runner();
  const results::CellRecord record = cells.run_one(asked);
  EXPECT_EQ(measurements(), 3);
  EXPECT_EQ(record.training.attempts.size(), 3u);
  EXPECT_EQ(disturbance_of(record), 0.1);
}

// Killed between the copy of the last attempt and the record that counts: the copy is no further attempt.
TEST_F(Attempts, ARestartTakesNoAttemptForTwo) {
  const results::CellRecord record = cells.run_one(request("killed", "0.3 0.2 0.4"));
  std::filesystem::copy_file(aside_of(record, 3), path_of(record), std::filesystem::copy_options::overwrite_existing);
  cells = runner();
  const results::CellRecord after = cells.run_one(request("killed", "0.3 0.2 0.4"));
  EXPECT_EQ(measurements(), 3);
  EXPECT_EQ(aside(), 3u);
  ASSERT_EQ(after.training.attempts.size(), 3u);
  EXPECT_EQ(disturbance_of(after), 0.2);
}

TEST_F(Attempts, ARecordThatLeftItsAttemptsBehindCountsAsItIs) {
  const results::CellRecord record = cells.run_one(request("copied", "0.3 0.2 0.4"));
  std::filesystem::remove_all(folder / "attempts");
  cells = runner();
  EXPECT_EQ(cells.run_one(request("copied", "0.3 0.2 0.4")).training.attempts.size(), 3u);
  EXPECT_EQ(measurements(), 3);
  EXPECT_EQ(used().disturbance, 0.2);
}

TEST_F(Attempts, AttemptsOfAnotherBuildStayAndDoNotCount) {
  results::CellRecord other = cells.run_one(request("build", "0.3 0.2 0.01", false));
  other.provenance.binary_hash = other_build;
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
  CellRunner other = runner_in(elsewhere);
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
  CellRunner goes_on = runner_in(elsewhere);
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

TEST_F(Attempts, OfAnotherMachineOnlyWhatIsNotTimedCounts) {
  const CellRequest timed = request("timed", "0.01"), loss = request("loss", "0.01", false);
  for (const CellRequest& one : {timed, loss}) {
    results::CellRecord record = cells.run_one(one);
    record.provenance.cpu = "another processor";
    results::write_cell_record(results::record_path(folder.path(), record.cell_id), record);
  }
  TemporaryFolder elsewhere;
  CellRunner goes_on = runner_in(elsewhere);
  goes_on.begin_with(results::collect(folder.path()).path);
  EXPECT_NE(goes_on.run_one(timed).provenance.cpu, "another processor");
  EXPECT_EQ(goes_on.run_one(loss).provenance.cpu, "another processor");
  EXPECT_EQ(measurements_in(elsewhere), 1);
}

// The launches of both folders are called 0001: what the file gave and what was measured here are two attempts all the same. Each folder plays 0.3 first.
TEST_F(Attempts, ADisturbedCellOfACollectedFileIsGivenOnceAndIsOneAttempt) {
  const CellRequest asked = request("begun", "0.3 0.01");
  (void)cells.run_one(request("begun", "0.3 0.01", false));
  const std::string collected = results::collect(folder.path()).path;
  TemporaryFolder elsewhere;
  CellRunner goes_on = runner_in(elsewhere);
  goes_on.begin_with(collected);
  const results::CellRecord record = goes_on.run_one(asked);
  EXPECT_EQ(measurements_in(elsewhere), 2);
  const auto& attempts = record.training.attempts;
  ASSERT_EQ(attempts.size(), 3u);
  EXPECT_EQ(attempts[0].launch, attempts[1].launch);
  EXPECT_EQ(attempts[0].disturbance_cores, 0.3);
  EXPECT_EQ(attempts[1].disturbance_cores, 0.3);
  EXPECT_EQ(attempts[2].disturbance_cores, 0.01);
  EXPECT_EQ(attempts[0].used + attempts[1].used, 0);
  EXPECT_EQ(attempts[2].used, 1);
}

// Killed when the cell of the file had been set aside: the next call is given it once more, and knows it.
TEST_F(Attempts, ARestartTakesNoCellOfACollectedFileForTwoAttempts) {
  (void)cells.run_one(request("begun", "0.3 0.2 0.1", false));
  const std::string collected = results::collect(folder.path()).path;
  TemporaryFolder elsewhere;
  const CellRequest asked = request("begun", "0.3 0.2 0.1");
  CellRunner goes_on = runner_in(elsewhere);
  goes_on.begin_with(collected);
  goes_on.prepare({&asked, 1});
  const std::string id = results::cell_id(asked.program, asked.ranks, asked.link, asked.parameters);
  EXPECT_TRUE(set_aside_if_disturbed(elsewhere.path(), id));
  goes_on = runner_in(elsewhere);
  goes_on.begin_with(collected);
  EXPECT_EQ(goes_on.run_one(asked).training.attempts.size(), 3u);
  EXPECT_EQ(measurements_in(elsewhere), 2);
}

TEST_F(Attempts, NoOtherRunnerComesBetweenTwoBatches) {
  (void)cells.run_one(request("first", ""));
  EXPECT_NE(message_of<EnvironmentError>([&] { const sweep::FolderLock other(folder.path()); }).find("another sweep"), std::string::npos);
  cells = runner();
  EXPECT_NO_THROW(const sweep::FolderLock other(folder.path())) << "one that has no use for cells yet holds nobody up";
}

/// A claim that measures these cells and whose number is 1.
class Verdicts : public Attempts {
 protected:
  /// `requests` by number of seeds.
  static Claim claim_of(std::function<std::vector<CellRequest>(int seeds)> requests, const std::string& confirmed_when, Verdict otherwise) {
    Claim claim;
    claim.id = "x.C1";
    claim.basis = Basis::emulated_link;
    claim.rule.quantities = {{"x", "a number"}};
    claim.rule.clauses = {{Verdict::confirmed, confirmed_when}};
    claim.rule.otherwise = otherwise;
    claim.measure = [requests](JudgeContext& context) {
      (void)context.cells.run(requests(context.seeds()));
      return Finding{{{"x", 1, no_number, no_number, no_number, "", "x"}}, {}, "", std::nullopt};
    };
    return claim;
  }
  Judged judged(std::vector<CellRequest> requests, const std::string& confirmed_when, Verdict otherwise = Verdict::not_reproduced) {
    JudgeContext context(Profile::smoke, folder.path(), cells);
    return judge(claim_of([requests](int) { return requests; }, confirmed_when, otherwise), context, Registry{});
  }
  /// Why these cells are not started.
  Error refusal(const std::vector<CellRequest>& requests) {
    try {
      const Judged j = judged(requests, "x == 1");
      return {ExitCode::ok, "judged " + name_of(j.outcome.verdict) + ": " + j.outcome.because};
    } catch (const Refused& refused) {
      return refused.error;
    }
  }
};

TEST_F(Verdicts, ATrainingThatDivergedIsUnstableAndNotRunAgain) {
  CellRequest failing = request(std::string(diverged_mark) + "the loss is not finite at step 3", "", false);
  failing.parameters.set("act", "throw");
  const Judged first = judged({failing}, "x == 1");
  EXPECT_EQ(first.outcome.verdict, Verdict::unstable) << first.outcome.because;
  EXPECT_NE(first.outcome.because.find("step 3"), std::string::npos) << first.outcome.because;
  const int measured = measurements();
  cells = runner();
  EXPECT_EQ(judged({failing}, "x == 1").outcome.verdict, Verdict::unstable);
  EXPECT_EQ(measurements(), measured);
  EXPECT_EQ(used().cell_id.size(), 64u) << "the verdict names its cell";
}

// A machine that is out of order is not asked for ever, but arms that diverge one behind the other are results: what comes behind them is measured.
TEST_F(Verdicts, DivergencesInARowDoNotStopTheRun) {
  constexpr int more_than_may_fail = 21;
  const auto behind = [&](const std::string& reason) {
    std::vector<CellRequest> all;
    for (int i = 0; i < more_than_may_fail; ++i) {
      all.push_back(request(reason + std::to_string(i), "", false));
      all.back().parameters.set("act", "failed_row");
      all.back().threads = i + 2;  // a launch of its own
    }
    all.push_back(request("behind " + reason, "", false));
    return all;
  };
  EXPECT_EQ(judged(behind(std::string(diverged_mark) + "at step "), "x == 1").outcome.verdict, Verdict::unstable);
  EXPECT_EQ(measurements(), more_than_may_fail + 1);
  cells = runner();
  EXPECT_NE(judged(behind("out of order "), "x == 1").outcome.because.find("too many cells failed in a row"), std::string::npos);
  EXPECT_EQ(measurements(), more_than_may_fail + 1 + 20);
}

// The runner writes the record of a training that failed, but it stands and falls with the build that was trained with.
TEST_F(Verdicts, ATrainingOfAnotherBuildThatDivergedIsTreatedAsOneThatWasMeasured) {
  CellRequest asked = request(std::string(diverged_mark) + "the loss is not finite at step 3", "", false);
  asked.parameters.set("act", "throw");
  EXPECT_EQ(judged({asked}, "x == 1").outcome.verdict, Verdict::unstable);
  const results::CellRecord record = results::read_cell_record(results::record_path(folder.path(), used().cell_id));
  EXPECT_EQ(record.provenance.binary_hash, results::hash_of_binary(cells.paths().bin + "/launch_player"));
  rewrite(record, other_build, "FAILED", record.rows.front().reason);
  cells = runner();
  const Error refused = refusal({asked});
  EXPECT_EQ(refused.code(), ExitCode::usage) << refused.what();
  EXPECT_NE(std::string(refused.what()).find("1 of 1 cells"), std::string::npos) << refused.what();
  cells = runner(sweep::IfCodeChanged::keep);
  EXPECT_EQ(judged({asked}, "x == 1").outcome.verdict, Verdict::unstable);
  EXPECT_EQ(measurements(), 1);
  cells = runner(sweep::IfCodeChanged::redo);
  EXPECT_EQ(judged({asked}, "x == 1").outcome.verdict, Verdict::unstable);
  EXPECT_EQ(measurements(), 2);
  cells = runner();
  EXPECT_EQ(judged({asked}, "x == 1").outcome.verdict, Verdict::unstable) << "it is this build's now";
  EXPECT_EQ(measurements(), 2);
}

TEST_F(Verdicts, WhatKeepsCellsFromStartingIsNone) {
  const CellRequest asked = request("a", "");
  {
    const sweep::FolderLock another(folder.path());
    const Error busy = refusal({asked});
    EXPECT_EQ(busy.code(), ExitCode::environment) << busy.what();
    EXPECT_NE(std::string(busy.what()).find("another sweep"), std::string::npos) << busy.what();
  }
  CellRequest unbuilt = asked;
  unbuilt.program = "nobody_built_it";
  EXPECT_EQ(refusal({unbuilt}).code(), ExitCode::environment);
  CellRequest unknown = asked;
  unknown.parameters.set("valu", "a");
  EXPECT_EQ(refusal({unknown}).code(), ExitCode::usage);
  EXPECT_EQ(measurements(), 0);
  rewrite(cells.run_one(asked), other_build, "OK", "");
  const Error changed = refusal({asked});
  EXPECT_EQ(changed.code(), ExitCode::usage) << changed.what();
  EXPECT_NE(std::string(changed.what()).find("--if-code-changed"), std::string::npos) << changed.what();
  EXPECT_EQ(measurements(), 1);
}

TEST_F(Verdicts, AnyOtherFailureIsInvalid) {
  CellRequest failing = request("a full disk", "", false);
  failing.parameters.set("act", "throw");
  EXPECT_EQ(judged({failing}, "x == 1").outcome.verdict, Verdict::invalid);
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

/// What is planned for a claim whose rule stays INCONCLUSIVE.
class Plans : public Verdicts {
 protected:
  ClaimPlan plan_of(std::function<std::vector<CellRequest>(int)> requests, std::vector<int> seeds, Profile profile, sweep::IfCodeChanged if_changed = sweep::IfCodeChanged::error) {
    Claim claim = claim_of(std::move(requests), "x > 1", Verdict::inconclusive);
    claim.seeds = std::move(seeds);
    cells = runner(if_changed);
    JudgeContext context(profile, folder.path(), cells);
    ClaimPlan plan = plan_claims({&claim}, context, CellTimes()).at(0);
    cells = runner(if_changed);  // the other one only plans
    return plan;
  }
  static std::vector<std::string> values_of(const ClaimPlan& plan) {
    std::vector<std::string> values;
    for (const CellRequest& cell : plan.work.cells) values.push_back(cell.parameters.text("value"));
    return values;
  }
};

TEST_F(Plans, NameTheCellsThatARunStarts) {
  const std::vector<std::string> values = {"ok", "failed", "timeout", "skipped", "diverged", "disturbed", "new"};
  const auto requests = [&](bool timed) {
    std::vector<CellRequest> all;
    for (const std::string& value : values) all.push_back(request(value, value == "disturbed" ? "0.3 0" : "", timed));
    return all;
  };
  const std::vector<CellRequest> before = requests(false), asked = requests(true);
  const std::vector<results::CellRecord> records = cells.run(std::span(before).first(6));
  rewrite(records[1], "", "FAILED", "a full disk");
  rewrite(records[2], "", "TIMEOUT", "it hung");
  rewrite(records[3], "", "SKIPPED", "no right");
  rewrite(records[4], "", "FAILED", std::string(diverged_mark) + "at step 3");
  const std::vector<std::string> planned = values_of(plan_of([&](int) { return asked; }, {}, Profile::smoke));
  EXPECT_EQ(planned, (std::vector<std::string>{"failed", "timeout", "skipped", "disturbed", "new"}));
  EXPECT_EQ(measurements(), 6) << "a plan starts nothing";
  EXPECT_EQ(judged(asked, "x == 1").outcome.verdict, Verdict::unstable);
  std::ifstream file(folder / "ran.txt");
  std::vector<std::string> ran;
  for (std::string line; std::getline(file, line);) ran.push_back(line);
  EXPECT_TRUE(std::is_permutation(ran.begin() + 6, ran.end(), planned.begin(), planned.end())) << "what ran is what was planned";
}

TEST_F(Plans, CountCellsOfAnotherBuildAsTheChoiceSays) {
  const std::vector<CellRequest> asked = {request("a", ""), request("b", "")};
  rewrite(cells.run(asked)[0], other_build, "OK", "");
  const auto plan = [&](sweep::IfCodeChanged if_changed) { return plan_of([&](int) { return asked; }, {}, Profile::smoke, if_changed); };
  const ClaimPlan undecided = plan(sweep::IfCodeChanged::error);
  EXPECT_TRUE(undecided.work.cells.empty());
  EXPECT_EQ(undecided.work.other_build.size(), 1u);
  EXPECT_NE(to_text({undecided}).find("1 cell or kept file is of another build"), std::string::npos) << to_text({undecided});
  const ClaimPlan again = plan(sweep::IfCodeChanged::redo), as_they_are = plan(sweep::IfCodeChanged::keep);
  EXPECT_EQ(values_of(again), std::vector<std::string>{"a"});
  EXPECT_TRUE(as_they_are.work.cells.empty());
  EXPECT_TRUE(again.work.other_build.empty() && as_they_are.work.other_build.empty());
}

TEST_F(Plans, AskTheRuleAboutTheSeedsThatAreThere) {
  const auto of_seeds = [](int seeds) {
    std::vector<CellRequest> all;
    for (int seed = 1; seed <= seeds; ++seed) all.push_back(request(std::to_string(seed), ""));
    return all;
  };
  const auto plan = [&](Profile profile) { return plan_of(of_seeds, {1, 3}, profile); };
  using Values = std::vector<std::string>;
  const ClaimPlan first = plan(Profile::standard), at_once = plan(Profile::full);
  EXPECT_EQ(values_of(first), Values{"1"});
  EXPECT_FALSE(first.complete);
  EXPECT_EQ(values_of(at_once), (Values{"1", "2", "3"}));
  EXPECT_TRUE(at_once.complete);
  (void)cells.run(of_seeds(1));
  const ClaimPlan more = plan(Profile::standard);
  EXPECT_EQ(values_of(more), (Values{"2", "3"}));
  EXPECT_TRUE(more.complete);
  (void)cells.run(of_seeds(3));
  EXPECT_EQ(values_of(plan(Profile::standard)), Values{});
}

}  // namespace
}  // namespace thinwire::claims
