// labels: unit
// The set of claims is well-formed, exact claims hold, verdicts survive their file, and bad files are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "bench/harness/options.h"
#include "bench/training/moved_start.h"
#include "bench/training/train_program.h"
#include "core/error.h"
#include "experiments/claims/claim_report.h"
#include "experiments/claims/interval.h"
#include "experiments/claims/judge.h"
#include "experiments/claims/plan.h"
#include "experiments/claims/registry.h"
#include "experiments/claims/trained.h"
#include "results/files/files.h"
#include "support/temporary_folder.h"
#include "thinwire_version.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::message_of;

/// No claim of the smoke profile may need a program: there is none in this folder.
struct Smoke {
  thinwire::testing::TemporaryFolder folder;
  CellRunner cells{{folder.path(), folder.path(), "", std::make_shared<sweep::Machine>()}, sweep::IfCodeChanged::error};
  JudgeContext context{Profile::smoke, folder.path(), cells};
};

TEST(Claims, EachSaysWhatItClaimsWhereItIsFromAndHowItIsJudged) {
  ASSERT_FALSE(all_claims().empty());
  const std::set<std::string> words = {"read", "second-hand", "recollected", "derived"};
  for (const Claim* claim : all_claims()) {
    EXPECT_FALSE(claim->statement.empty()) << claim->id;
    EXPECT_EQ(defect_of(claim->rule), "") << claim->id;
    bool has_word = false;
    for (const std::string& word : words) has_word |= claim->provenance.find(word) != std::string::npos;
    EXPECT_TRUE(has_word) << claim->id << ": provenance '" << claim->provenance << "' is none of read, second-hand, recollected, derived";
  }
}

// PASS and FAIL speak of arithmetic and of our code, REFUTED of a paper's own numbers; all else is measured or modelled, and says from which
// effect on it speaks. A claim that cannot be refuted by what is built (an arm has an advantage that the paper's has not) says so in its settings: NOT DECIDABLE.
TEST(Claims, VerdictsOfARuleFitItsBasis) {
  for (const Claim* claim : all_claims()) {
    std::set<Verdict> verdicts = {claim->rule.otherwise};
    for (const Clause& clause : claim->rule.clauses) verdicts.insert(clause.verdict);
    const bool computed = claim->basis == Basis::exact || claim->basis == Basis::published;
    const bool says_not_decidable = verdicts.contains(Verdict::not_decidable) && std::ranges::any_of(claim->rule.settings, [](const auto& s) { return s.second.find("NOT DECIDABLE") != std::string::npos; });
    EXPECT_FALSE(claim->basis != Basis::exact && (verdicts.contains(Verdict::pass) || verdicts.contains(Verdict::fail))) << claim->id;
    EXPECT_FALSE(claim->basis != Basis::published && verdicts.contains(Verdict::refuted)) << claim->id;
    EXPECT_TRUE(computed || !claim->rule.smallest_effect.empty()) << claim->id << " says of no effect that it is worth naming";
    EXPECT_TRUE(computed || verdicts.contains(Verdict::not_reproduced) || says_not_decidable) << claim->id << " cannot fail";
  }
}

TEST(Claims, RulesAreTheRegisteredOnes) {
  const std::string path = std::string(THINWIRE_SOURCE_FOLDER) + "/" + registry_file;
  for (const std::string& line : unregistered(registry_from(results::read_file(path), path), all_claims()))
    ADD_FAILURE() << line << "; `claims lock --what TEXT --why TEXT` registers it";
}

// Rules of claims without such arms are registered in these words.
TEST(Claims, OnlyArmsThatMayFailChangeTheWordsOfAControl) {
  CellRequest cell{"train_gpt", 1, "shm", {}};
  cell.parameters.set("steps", 1);
  const Comparison comparison{"test", cell};
  const std::vector<RuleArm> arms = {{"dense", {}}, {"coded", {}}, {"thin", {}}};
  const auto worst = [&](const std::vector<std::string>& may_fail) {
    const Rule rule = comparison_rule(comparison, arms, may_fail);
    return std::ranges::find(rule.quantities, "worst", &Quantity::symbol)->what;
  };
  EXPECT_EQ(worst({}), "the largest final validation loss of any arm and seed, nats per token");
  EXPECT_EQ(worst({"coded", "thin"}), worst({}) + ", any arm but coded and thin: a run of these that diverges or ends above `entropy` enters with `entropy` as its loss, for it lost at least this");
  const std::vector<std::vector<double>> losses = {{2}, {2.1}, {9}};
  const auto largest = [&](const std::vector<std::string>& may_fail) {
    const std::vector<Measure> controls = comparison_controls(arms, losses, 5, may_fail);
    return std::ranges::find(controls, "worst", &Measure::symbol)->value;
  };
  EXPECT_EQ(largest({}), 9);
  EXPECT_EQ(largest({"thin"}), 2.1);
  EXPECT_EQ(largest({"coded", "thin"}), 2);
}

TEST(Claims, FiguresThatTheyNameAreThere) {
  std::set<std::string> figures;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(THINWIRE_SOURCE_FOLDER) + "/plots/figures"))
    if (entry.path().extension() == ".py") figures.insert(entry.path().stem());
  for (const Claim* claim : all_claims()) EXPECT_TRUE(claim->figure.empty() || figures.contains(claim->figure)) << claim->id << " names the figure " << claim->figure;
}

/// What train_gpt says to the command of a cell before it starts anything; empty: nothing.
std::string refusal(const CellRequest& request) {
  bench::CellParameters parameters;
  for (const auto& [name, value] : request.parameters.values())
    if (name != "from" && name != "from-sha256") parameters.values[name] = results::to_text(value);  // of a pre-trained model that need not be here: sizes are stated beside it
  const bench::BenchProgram program = bench::train_program();
  const std::vector<bench::BenchOption> options = bench::all_options(program);
  for (const auto& [name, value] : parameters.values)
    if (std::ranges::find(options, name, &bench::BenchOption::name) == options.end()) return "there is no option --" + name;
  parameters.values.erase("seed");
  try {
    const TrainConfig config = bench::train_config_of(parameters);
    config.check();
    bench::require_ranks(config.mesh, request.ranks);
    (void)bench::moved_start_of(parameters, config), (void)bench::keep_at_of(parameters, config);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A study ends hours later at an arm with an option, a codec or a trait that the program refuses.
TEST(Claims, TrainGptAcceptsEveryTrainingThatTheyAskFor) {
  const thinwire::testing::TemporaryFolder folder;
  CellRunner cells{{folder.path(), folder.path(), "", std::make_shared<sweep::Machine>()}, sweep::IfCodeChanged::error};
  JudgeContext context{Profile::full, folder.path(), cells};
  std::vector<const Claim*> measured;
  for (const Claim* claim : all_claims())
    if (claim->basis == Basis::training || claim->basis == Basis::emulated_link || claim->basis == Basis::namespaces) measured.push_back(claim);
  std::set<std::string> asked;
  for (const ClaimPlan& plan : plan_claims(measured, context, CellTimes()))
    for (CellRequest request : plan.work.cells) {
      if (request.program != "train_gpt") continue;
      const std::string seed = request.parameters.has("seed") ? request.parameters.text("seed") : "";
      request.parameters.set("seed", 1);
      if (!asked.insert(request.link + std::to_string(request.ranks) + request.parameters.canonical_json()).second) continue;
      const std::string why = refusal(request);
      EXPECT_EQ(why, "") << plan.id << ", " << (request.parameters.has("plan") ? request.parameters.text("plan") : "no plan") << ", seed " << seed;
    }
  EXPECT_GT(asked.size(), 200u) << "of the pages' claims on trainings";
  CellRequest wrong{"train_gpt", 1, "shm", {}};
  wrong.parameters.set("compress.pp_forward", "topq");
  EXPECT_NE(refusal(wrong).find("topq"), std::string::npos) << refusal(wrong);
}

Outcome smoke_outcome(const std::string& id) {
  Smoke smoke;
  return judge(*claims_named(id).at(0), smoke.context, {}).outcome;
}

TEST(Claims, ExactOnesPass) {
  for (const Claim* claim : all_claims())
    if (claim->basis == Basis::exact && claim->from == Profile::smoke) {
      const Outcome outcome = smoke_outcome(claim->id);
      EXPECT_EQ(name_of(outcome.verdict), "PASS") << claim->id << ": " << outcome.because;
    }
}

// docs/papers/optimus_cc.md, "Step time of strict 1F1B": the expected share is 3/14 at P = 4, M = 16, so strict 1F1B does not show the claim.
TEST(Claims, TheEventModelDoesNotShowThatOnlyTheEpilogueIsExposed) {
  const Outcome outcome = smoke_outcome("optimus_cc.C5b");
  EXPECT_EQ(outcome.verdict, Verdict::not_reproduced);
  for (const Measure& m : outcome.measures) EXPECT_NEAR(m.value, 3.0 / 14, 1e-9) << m.name;
}

// M1 to M3 time no 128 ranks; and some techniques gain less than 1 % of a step there.
TEST(Claims, StacksOn128RanksRestOnTheModelAlone) {
  const Outcome outcome = smoke_outcome("optimus_cc.C14a");
  EXPECT_EQ(outcome.verdict, Verdict::model_only);
  EXPECT_NE(outcome.because.find("by the model DIRECTION ONLY"), std::string::npos) << outcome.because;
}

TEST(Claims, AreFoundByTheBeginningsOfTheirIds) {
  EXPECT_GE(claims_named("optimus_cc.C5").size(), 2u);
  std::set<std::string> pages;
  for (const Claim* claim : all_claims()) pages.insert(claim->id.substr(0, claim->id.find('.')));
  EXPECT_GE(pages.size(), 2u);
  std::size_t of_pages = 0;
  for (const std::string& page : pages) of_pages += claims_named(page).size();
  EXPECT_EQ(of_pages, all_claims().size());
  EXPECT_NE(message_of<UsageError>([] { (void)claims_named("optimus_cc.C77"); }).find("optimus_cc.C7"), std::string::npos);
  EXPECT_THROW((void)claims_named("optimus_c"), UsageError) << "not at a boundary";
}

TEST(ClaimReport, KeepsVerdictsAndRefusesWhatItDidNotWrite) {
  Smoke smoke;
  std::vector<Judged> judged;
  for (const Claim* claim : claims_named("optimus_cc.C7")) judged.push_back(judge(*claim, smoke.context, {}));
  judged[0].outcome.tables = {{"stacks", {"step (ms)", "share"}, {{"none", {1.5, no_number}}, {"all", {1.25, 0.5}}}}};
  judged[0].outcome.measures[0].low = 0.5;
  const std::string json = to_json(judged);
  EXPECT_EQ(to_json(from_json(json, "x")), json);
  EXPECT_TRUE(std::isnan(from_json(json, "x")[0].outcome.measures[0].high));
  EXPECT_NE(to_text(judged).find("optimus_cc.C7  PASS"), std::string::npos) << to_text(judged);
  for (const std::string& bad : {std::string("{}"), json.substr(0, json.size() / 2), std::string("{\"schema\": 2, \"claims\": []}")})
    EXPECT_NE(message_of<CorruptData>([&] { (void)from_json(bad, "folder/claims.json"); }).find("folder/claims.json"), std::string::npos) << bad;
  judged[0].outcome.verdict = Verdict::fail;
  EXPECT_EQ(exit_status_of(judged), 1);
  judged[0].outcome.verdict = Verdict::not_reproduced;
  EXPECT_EQ(exit_status_of(judged), 0) << "a claim that does not hold is a result";
}

TEST(ClaimReport, AVerdictOfALargerProfileAndThoseOfOtherClaimsStay) {
  const auto judged = [](const std::string& id, Profile profile, Verdict verdict, const std::string& because) {
    Judged j;
    j.id = id, j.basis = "training", j.profile = name_of(profile);
    j.outcome = {verdict, because, {}, {}};
    return j;
  };
  std::vector<Judged> kept = {judged("a.C1", Profile::standard, Verdict::confirmed, "300 steps"), judged("a.C2", Profile::quick, Verdict::not_reproduced, "10 steps")};
  const auto of_c1 = [&] { return kept[0].profile + " " + name_of(kept[0].outcome.verdict) + " " + kept[0].outcome.because; };
  EXPECT_FALSE(keep_verdict(kept, judged("a.C1", Profile::quick, Verdict::inconclusive, "10 steps")));
  EXPECT_EQ(of_c1(), "standard CONFIRMED 300 steps");
  ASSERT_EQ(kept[0].earlier.size(), 1u) << "what did not take its place stays visible";
  EXPECT_EQ(kept[0].earlier[0].because, "10 steps");
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::standard, Verdict::not_reproduced, "again")));
  EXPECT_EQ(of_c1(), "standard NOT REPRODUCED AT THIS SCALE again");
  EXPECT_TRUE(keep_verdict(kept, judged("a.C3", Profile::smoke, Verdict::confirmed, "new")));
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::full, Verdict::invalid, "no control")));
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::quick, Verdict::confirmed, "better than none")));
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::full, Verdict::pass, "exact")));
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::smoke, Verdict::fail, "a defect of now")));
  EXPECT_EQ(of_c1(), "smoke FAIL a defect of now");
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[1].outcome.because, "10 steps") << "another claim's verdict";
}

// A large profile takes days: what it said once must not hide what is known now.
TEST(ClaimReport, AVerdictByThePresentRuleReplacesOneByAFormerRuleAndOneThatSaysNothing) {
  const auto judged = [](Profile profile, Verdict verdict, const std::string& rule_hash) {
    Judged j;
    j.id = "a.C1", j.basis = "training", j.profile = name_of(profile), j.rule_hash = rule_hash;
    j.outcome = {verdict, "", {}, {}};
    return j;
  };
  std::vector<Judged> kept = {judged(Profile::full, Verdict::confirmed, "former")};
  for (const Verdict nothing : {Verdict::invalid, Verdict::skipped, Verdict::not_decidable})
    EXPECT_FALSE(keep_verdict(kept, judged(Profile::standard, nothing, "present"))) << name_of(nothing) << " is no verdict";
  EXPECT_EQ(kept[0].rule_hash, "former");
  EXPECT_TRUE(keep_verdict(kept, judged(Profile::standard, Verdict::inconclusive, "present")));
  EXPECT_EQ(kept[0].rule_hash, "present");
  EXPECT_EQ(kept[0].earlier.back().rule_hash, "former") << "it stays visible";
  EXPECT_FALSE(keep_verdict(kept, judged(Profile::quick, Verdict::confirmed, "present")));
  for (const Verdict nothing : {Verdict::invalid, Verdict::skipped, Verdict::not_decidable}) {
    kept = {judged(Profile::full, nothing, "present")};
    EXPECT_TRUE(keep_verdict(kept, judged(Profile::standard, Verdict::confirmed, "present"))) << name_of(nothing);
    EXPECT_EQ(kept[0].outcome.verdict, Verdict::confirmed);
  }
  kept = {judged(Profile::full, Verdict::unstable, "present")};
  EXPECT_FALSE(keep_verdict(kept, judged(Profile::standard, Verdict::confirmed, "present"))) << "that an arm diverges is a result";
}

TEST(ClaimReport, ACheckThatCannotBeMadeIsInvalidWithItsReason) {
  Claim claim;
  claim.id = "x.C1";
  claim.source = "experiments/claims/optimus_cc/telescoping.cpp";
  claim.measure = [](JudgeContext&) -> Finding { throw UsageError("no such run"); };
  Smoke smoke;
  const Judged judged = judge(claim, smoke.context, {});
  EXPECT_EQ(judged.outcome.verdict, Verdict::invalid);
  EXPECT_NE(judged.outcome.because.find("no such run"), std::string::npos);
}

// Differences 1, 2, 3, 4, 5 have the mean 3 and the standard error sqrt(2.5 / 5); t for 4 degrees of freedom is 2.776445 (tables).
TEST(ClaimStatistics, PairedIntervalIsStudents) {
  const std::vector<double> a = {10, 20, 30, 40, 50}, b = {11, 22, 33, 44, 55};
  const Interval i = paired_interval(a, b);
  EXPECT_DOUBLE_EQ(i.mean, 3);
  EXPECT_NEAR(i.high - i.mean, 2.776445 * std::sqrt(0.5), 1e-5);
  EXPECT_NEAR(i.mean - i.low, 2.776445 * std::sqrt(0.5), 1e-5);
  EXPECT_TRUE(std::isnan(interval_of(std::vector<double>{1}).low)) << "one value has no interval";
  EXPECT_THROW((void)paired_interval(a, std::vector<double>{1}), UsageError);
}

// More seeds do not help an arm that diverged, so its scatter must not ask for them.
TEST(ClaimStatistics, WhatSaysNothingIsNotCalledScatter) {
  const Rule rule = {.quantities = {{"gain", "a gain"}, {"worst", "largest loss"}},
                     .constants = {{"none", 0, ""}, {"smallest", 0.5, ""}, {"entropy", 3, ""}},
                     .scatter = {{"gain", "none", "smallest"}},
                     .clauses = {{Verdict::unstable, "worst > entropy"}, {Verdict::confirmed, "gain.low > none && gain >= smallest"}},
                     .smallest_effect = "smallest"};
  const auto verdict = [&](double worst) { return decide(rule, {{"", 1, -1, 3, 0, "", "gain"}, {"", worst, no_number, no_number, no_number, "", "worst"}}).verdict; };
  EXPECT_EQ(verdict(2), Verdict::inconclusive);
  EXPECT_EQ(verdict(4), Verdict::unstable);
}

}  // namespace
}  // namespace thinwire::claims
