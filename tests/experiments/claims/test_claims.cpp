// labels: unit
// The set of claims is well-formed, exact claims hold, verdicts survive their file, and bad files are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.h"
#include "experiments/claims/claim_report.h"
#include "experiments/claims/interval.h"
#include "support/temporary_folder.h"

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
    EXPECT_FALSE(claim->statement.empty() || claim->rule.empty()) << claim->id;
    bool has_word = false;
    for (const std::string& word : words) has_word |= claim->provenance.find(word) != std::string::npos;
    EXPECT_TRUE(has_word) << claim->id << ": provenance '" << claim->provenance << "' is none of read, second-hand, recollected, derived";
  }
}

TEST(Claims, ExactOnesPass) {
  Smoke smoke;
  for (const Claim* claim : all_claims())
    if (claim->basis == Basis::exact && claim->from == Profile::smoke) {
      EXPECT_EQ(name_of(claim->judge(smoke.context).verdict), "PASS") << claim->id;
    }
}

// papers/optimus_cc.md: the expected share is 3/14 at P = 4, M = 16, so strict 1F1B refutes the claim.
TEST(Claims, TheEventModelRefutesThatOnlyTheEpilogueIsExposed) {
  const auto claim = claims_named("optimus_cc.C5b");
  ASSERT_EQ(claim.size(), 1u);
  Smoke smoke;
  const Outcome outcome = claim[0]->judge(smoke.context);
  EXPECT_EQ(outcome.verdict, Verdict::refuted);
  for (const Measure& m : outcome.measures) EXPECT_NEAR(m.value, 3.0 / 14, 1e-9) << m.name;
}

TEST(Claims, AreFoundByTheBeginningsOfTheirIds) {
  EXPECT_GE(claims_named("optimus_cc.C5").size(), 2u);
  std::size_t of_pages = 0;
  for (const char* page : {"optimus_cc", "tensor_parallel"}) of_pages += claims_named(page).size();
  EXPECT_EQ(of_pages, all_claims().size());
  EXPECT_NE(message_of<UsageError>([] { (void)claims_named("optimus_cc.C77"); }).find("optimus_cc.C7"), std::string::npos);
  EXPECT_THROW((void)claims_named("optimus_c"), UsageError) << "not at a boundary";
}

TEST(ClaimReport, KeepsVerdictsAndRefusesWhatItDidNotWrite) {
  Smoke smoke;
  std::vector<Judged> judged;
  for (const Claim* claim : claims_named("optimus_cc.C7")) judged.push_back(judge(*claim, smoke.context));
  judged[0].outcome.tables = {{"stacks", {"step (ms)", "share"}, {{"none", {1.5, no_number}}, {"all", {1.25, 0.5}}}}};
  judged[0].outcome.measures[0].low = 0.5;
  const std::string json = to_json(judged);
  EXPECT_EQ(to_json(from_json(json, "x")), json);
  EXPECT_TRUE(std::isnan(from_json(json, "x")[0].outcome.measures[0].high));
  EXPECT_NE(to_text(judged).find("optimus_cc.C7  PASS"), std::string::npos) << to_text(judged);
  for (const std::string& bad : {std::string("{}"), json.substr(0, json.size() / 2), std::string("{\"schema\": 3, \"claims\": []}")})
    EXPECT_NE(message_of<CorruptData>([&] { (void)from_json(bad, "folder/claims.json"); }).find("folder/claims.json"), std::string::npos) << bad;
  judged[0].outcome.verdict = Verdict::fail;
  EXPECT_EQ(exit_status_of(judged), 1);
  judged[0].outcome.verdict = Verdict::refuted;
  EXPECT_EQ(exit_status_of(judged), 0) << "a claim that does not hold is a result";
}

TEST(ClaimReport, AVerdictOfALargerProfileAndThoseOfOtherClaimsStay) {
  const auto judged = [](const std::string& id, Profile profile, Verdict verdict, const std::string& because) {
    return Judged{id, "", "", "", "training", name_of(profile), "", {verdict, because, {}, {}}};
  };
  std::vector<Judged> kept = {judged("a.C1", Profile::standard, Verdict::confirmed, "300 steps"), judged("a.C2", Profile::quick, Verdict::refuted, "10 steps")};
  const auto of_c1 = [&] { return kept[0].profile + " " + name_of(kept[0].outcome.verdict) + " " + kept[0].outcome.because; };
  EXPECT_FALSE(keep_verdict(kept, judged("a.C1", Profile::quick, Verdict::inconclusive, "10 steps")));
  EXPECT_EQ(of_c1(), "standard CONFIRMED 300 steps");
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::standard, Verdict::refuted, "again")));
  EXPECT_EQ(of_c1(), "standard REFUTED again");
  EXPECT_TRUE(keep_verdict(kept, judged("a.C3", Profile::smoke, Verdict::confirmed, "new")));
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::full, Verdict::invalid, "no control")));
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::quick, Verdict::confirmed, "better than none")));
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::full, Verdict::pass, "exact")));
  EXPECT_TRUE(keep_verdict(kept, judged("a.C1", Profile::smoke, Verdict::fail, "a defect of now")));
  EXPECT_EQ(of_c1(), "smoke FAIL a defect of now");
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[1].outcome.because, "10 steps") << "another claim's verdict";
}

TEST(ClaimReport, ACheckThatCannotBeMadeIsInvalidWithItsReason) {
  Claim claim;
  claim.id = "x.C1";
  claim.judge = [](JudgeContext&) -> Outcome { throw UsageError("no such run"); };
  Smoke smoke;
  const Judged judged = judge(claim, smoke.context);
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

TEST(ClaimStatistics, SeedsAreDoubledOnceAndOnlyWhenInconclusive) {
  Smoke smoke;
  std::vector<int> asked;
  const auto inconclusive = [&](int seeds) {
    asked.push_back(seeds);
    return Outcome{Verdict::inconclusive, "too wide", {}};
  };
  const Outcome outcome = with_doubled_seeds(smoke.context, inconclusive);
  EXPECT_EQ(asked, (std::vector<int>{smoke.context.seeds(), 2 * smoke.context.seeds()}));
  EXPECT_EQ(outcome.verdict, Verdict::inconclusive);
  asked.clear();
  const auto refuted = [&](int seeds) {
    asked.push_back(seeds);
    return Outcome{Verdict::refuted, "", {}};
  };
  (void)with_doubled_seeds(smoke.context, refuted);
  EXPECT_EQ(asked.size(), 1u);
}

}  // namespace
}  // namespace thinwire::claims
