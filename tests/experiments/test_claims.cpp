// labels: unit
// The set of claims is well-formed, exact claims hold, verdicts survive their file, and bad files are refused.
#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "experiments/claims/claim_report.h"
#include "support/temporary_folder.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::message_of;

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
  for (const Claim* claim : all_claims())
    if (claim->basis == Basis::exact) {
      EXPECT_EQ(name_of(claim->judge().verdict), "PASS") << claim->id;
    }
}

// papers/optimus_cc.md: the expected share is 3/14 at P = 4, M = 16, so strict 1F1B refutes the claim.
TEST(Claims, TheEventModelRefutesThatOnlyTheEpilogueIsExposed) {
  const auto claim = claims_named("optimus_cc.C5b");
  ASSERT_EQ(claim.size(), 1u);
  const Outcome outcome = claim[0]->judge();
  EXPECT_EQ(outcome.verdict, Verdict::refuted);
  for (const Measure& m : outcome.measures) EXPECT_NEAR(m.value, 3.0 / 14, 1e-9) << m.name;
}

TEST(Claims, AreFoundByTheBeginningsOfTheirIds) {
  EXPECT_EQ(claims_named("optimus_cc.C5").size(), 2u);
  EXPECT_EQ(claims_named("optimus_cc").size(), all_claims().size());
  EXPECT_NE(message_of<UsageError>([] { (void)claims_named("optimus_cc.C77"); }).find("optimus_cc.C7"), std::string::npos);
  EXPECT_THROW((void)claims_named("optimus_c"), UsageError) << "not at a boundary";
}

TEST(ClaimReport, KeepsVerdictsAndRefusesWhatItDidNotWrite) {
  std::vector<Judged> judged;
  for (const Claim* claim : claims_named("optimus_cc.C7")) judged.push_back(judge(*claim));
  judged[0].outcome.measures[0].low = 0.5;
  const std::string json = to_json(judged);
  EXPECT_EQ(to_json(from_json(json, "x")), json);
  EXPECT_TRUE(std::isnan(from_json(json, "x")[0].outcome.measures[0].high));
  EXPECT_NE(to_text(judged).find("optimus_cc.C7  PASS"), std::string::npos) << to_text(judged);
  for (const std::string& bad : {std::string("{}"), json.substr(0, json.size() / 2), std::string("{\"schema\": 2, \"claims\": []}")})
    EXPECT_NE(message_of<CorruptData>([&] { (void)from_json(bad, "folder/claims.json"); }).find("folder/claims.json"), std::string::npos) << bad;
  judged[0].outcome.verdict = Verdict::fail;
  EXPECT_EQ(exit_status_of(judged), 1);
  judged[0].outcome.verdict = Verdict::refuted;
  EXPECT_EQ(exit_status_of(judged), 0) << "a claim that does not hold is a result";
}

TEST(ClaimReport, ACheckThatCannotBeMadeIsInvalidWithItsReason) {
  Claim claim;
  claim.id = "x.C1";
  claim.judge = []() -> Outcome { throw UsageError("no such run"); };
  const Judged judged = judge(claim);
  EXPECT_EQ(judged.outcome.verdict, Verdict::invalid);
  EXPECT_NE(judged.outcome.because.find("no such run"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::claims
