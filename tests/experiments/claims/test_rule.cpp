// labels: unit
// Rules as data: which verdict follows from which numbers, the control of scatter, what is refused, the text, and the hash.
#include "experiments/claims/rule/rule.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "core/error.h"
#include "experiments/claims/claim_report.h"
#include "experiments/claims/registry.h"
#include "support/temporary_folder.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::message_of;

/// A margin of 0.02 either way, an effect of 0.02 worth naming.
Rule margin_rule() {
  return {.settings = {{"steps", "500"}},
          .arms = {{"dense", {}}, {"rank 2", {{"codec", "powersgd:rank=2"}}}},
          .quantities = {{"difference", "L(arm) - L(dense), paired over seeds"}},
          .constants = {{"margin", 0.02, "nats per token"}, {"delta", 0.02, "nats per token: the smallest loss worth naming"}},
          .scatter = {{"difference", "margin", "delta"}},
          .clauses = {{Verdict::confirmed, "difference.high < margin"}, {Verdict::not_reproduced, "difference.low > margin"}},
          .smallest_effect = "delta"};
}

std::vector<Measure> difference(double value, double low, double high) {
  return {{"L(rank 2) - L(dense)", value, low, high, 0.02, "nats per token", "difference"}};
}

TEST(Rule, TheFirstClauseThatHoldsGivesTheVerdict) {
  EXPECT_EQ(decide(margin_rule(), difference(0.005, 0.001, 0.009)).verdict, Verdict::confirmed);
  EXPECT_EQ(decide(margin_rule(), difference(0.05, 0.045, 0.055)).verdict, Verdict::not_reproduced);
  const Decision open = decide(margin_rule(), difference(0.02, 0.015, 0.025));
  EXPECT_EQ(open.verdict, Verdict::inconclusive);
  EXPECT_NE(open.because.find("difference = 0.02 [0.015, 0.025]"), std::string::npos) << open.because;
  EXPECT_NE(decide(margin_rule(), difference(0.005, 0.001, 0.009)).because.find("difference.high < margin holds"), std::string::npos);
}

TEST(Rule, ScatterThatHidesTheEffectDecidesNothingUnlessTheIntervalIsFarFromTheMargin) {
  EXPECT_EQ(decide(margin_rule(), difference(-0.01, -0.035, 0.015)).verdict, Verdict::inconclusive) << "half-width 0.025, less than delta from the margin";
  EXPECT_EQ(decide(margin_rule(), difference(-0.04, -0.08, -0.001)).verdict, Verdict::confirmed) << "wide, but more than delta below the margin";
  EXPECT_EQ(decide(margin_rule(), difference(1.2, 1.1, 1.3)).verdict, Verdict::not_reproduced) << "wide, but more than delta above it";
  EXPECT_EQ(decide(margin_rule(), difference(0.005, no_number, no_number)).verdict, Verdict::invalid) << "no interval at all";
}

TEST(Rule, WhatWasNotMeasuredIsInvalid) {
  EXPECT_EQ(decide(margin_rule(), {}).verdict, Verdict::invalid);
  Rule exact{.quantities = {{"error", "largest difference"}}, .constants = {{"bound", 1e-10, ""}}, .clauses = {{Verdict::pass, "error <= bound"}}, .otherwise = Verdict::fail};
  EXPECT_EQ(decide(exact, {{"e", 0, no_number, no_number, no_number, "", "error"}}).verdict, Verdict::pass);
  EXPECT_EQ(decide(exact, {{"e", 1e-9, no_number, no_number, no_number, "", "error"}}).verdict, Verdict::fail);
  EXPECT_EQ(decide(exact, {{"e", no_number, no_number, no_number, no_number, "", "error"}}).verdict, Verdict::invalid) << "not a number is no PASS and no FAIL";
  EXPECT_EQ(decide(exact, {{"error", 0, no_number, no_number, no_number, "", ""}}).verdict, Verdict::invalid) << "a name for people is no symbol";
}

TEST(Rule, DefectsAreNamed) {
  const auto defect = [](auto change) {
    Rule rule = margin_rule();
    change(rule);
    return defect_of(rule);
  };
  EXPECT_EQ(defect([](Rule&) {}), "");
  EXPECT_NE(defect([](Rule& r) { r.clauses.push_back({Verdict::pass, "loss < margin"}); }).find("asks for loss"), std::string::npos);
  EXPECT_NE(defect([](Rule& r) { r.clauses.push_back({Verdict::pass, "difference <"}); }).find("`difference <`"), std::string::npos);
  EXPECT_NE(defect([](Rule& r) { r.constants.push_back({"spare", 1, ""}); }).find("nothing uses the constant spare"), std::string::npos);
  EXPECT_NE(defect([](Rule& r) { r.constants[0].value = no_number; }).find("no number"), std::string::npos);
  EXPECT_NE(defect([](Rule& r) { r.clauses.clear(); r.scatter = {{"difference", "margin", "delta"}}; }).find("no clause"), std::string::npos);
  EXPECT_NE(defect([](Rule& r) { r.scatter[0].delta = "epsilon"; }).find("epsilon"), std::string::npos);
  EXPECT_THROW((void)decide(Rule{}, {}), std::logic_error);
}

TEST(Rule, ItsTextSaysAllOfIt) {
  const std::string text = text_of(margin_rule());
  for (const char* part : {"CONFIRMED if difference.high < margin", "NOT REPRODUCED AT THIS SCALE if difference.low > margin", "else INCONCLUSIVE", "paired over seeds",
                           "margin = 0.02 nats per token", "steps 500", "rank 2 (codec powersgd:rank=2)", "Smallest effect worth naming: delta"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST(Rule, WordsOfVerdictsAreTheirOwnInverse) {
  for (int v = 0; v <= static_cast<int>(Verdict::fail); ++v) EXPECT_EQ(verdict_named(name_of(static_cast<Verdict>(v))), static_cast<Verdict>(v));
  EXPECT_THROW((void)verdict_named("MAYBE"), CorruptData);
}

Claim training_claim() {
  Claim claim;
  claim.id = "x.C1";
  claim.statement = "s";
  claim.basis = Basis::training;
  claim.rule = margin_rule();
  claim.measure = [](JudgeContext&) { return Finding{difference(0.005, 0.001, 0.009)}; };
  return claim;
}

TEST(RuleHash, CoversWhatDecidesAndNothingElse) {
  const std::string before = rule_hash(training_claim());
  const auto after = [&](auto change) {
    Claim claim = training_claim();
    change(claim);
    return rule_hash(claim);
  };
  EXPECT_EQ(after([](Claim& c) { c.past = {{"2026-01-01", "a", "b"}}; }), before);
  EXPECT_EQ(after([](Claim& c) { c.figure = "margins"; }), before);
  EXPECT_EQ(after([](Claim& c) { c.rule.constants[0].what = "nat"; }), before) << "words about a number are not the number";
  EXPECT_NE(after([](Claim& c) { c.rule.constants[0].value = 0.03; }), before);
  EXPECT_NE(after([](Claim& c) { c.rule.clauses[0].when = "difference.high <= margin"; }), before);
  EXPECT_NE(after([](Claim& c) { c.rule.arms[1].settings["codec"] = "powersgd:rank=4"; }), before);
  EXPECT_NE(after([](Claim& c) { c.rule.settings["steps"] = "1000"; }), before);
  EXPECT_NE(after([](Claim& c) { c.seeds = {5, 10}; }), before);
  EXPECT_NE(after([](Claim& c) { c.statement = "t"; }), before);
  EXPECT_NE(after([](Claim& c) { c.not_validated = "the broadcast term"; }), before);
  EXPECT_NE(after([](Claim& c) { c.from = Profile::full; }), before);
}

TEST(Registry, KeepsFormerHashesWithDateAndReason) {
  Claim claim = training_claim();
  const std::string first = rule_hash(claim);
  Registry registry = updated({}, {&claim}, "2026-11-22", "", "");
  EXPECT_TRUE(unregistered(registry, {&claim}).empty());
  EXPECT_EQ(to_text(updated(registry, {&claim}, "2026-12-01", "", "")), to_text(registry)) << "an equal rule keeps its date";
  claim.rule.constants[0].value = 0.05;
  ASSERT_EQ(unregistered(registry, {&claim}).size(), 1u);
  EXPECT_NE(message_of<UsageError>([&] { (void)updated(registry, {&claim}, "2026-12-01", "", ""); }).find("x.C1"), std::string::npos);
  registry = registry_from(to_text(updated(registry, {&claim}, "2026-12-01", "margin 0.05", "a slip")), "x");
  const RegisteredRule& rule = registry.rules.at("x.C1");
  EXPECT_EQ(rule.date, "2026-12-01");
  ASSERT_EQ(rule.changes.size(), 1u);
  EXPECT_EQ(rule.changes[0].former_hash, first);
  EXPECT_EQ(rule.changes[0].why, "a slip");
  EXPECT_EQ(updated(registry, {}, "2027-01-01", "", "").rules.count("x.C1"), 1u) << "a claim that is gone stays registered";
  for (const char* bad : {"{", "{}", R"({"schema": 9, "rules": {}})", R"({"schema": 1, "rules": {"a": {}}})"})
    EXPECT_NE(message_of<CorruptData>([&] { (void)registry_from(bad, "folder/registry.lock"); }).find("folder/registry.lock"), std::string::npos) << bad;
}

TEST(Registry, AKeptVerdictWhoseRuleChangedSaysSo) {
  Claim claim = training_claim();
  Registry registry = updated({}, {&claim}, "2026-11-22", "", "");
  Judged by_this, unregistered_one;
  by_this.id = unregistered_one.id = "x.C1";
  by_this.rule_hash = rule_hash(claim);
  std::vector<Judged> kept = {by_this, unregistered_one};
  mark_former_rules(kept, registry);
  EXPECT_EQ(kept[0].rule_changed, "");
  for (const char* what : {"margin 0.05", "margin 0.06"}) {
    claim.rule.constants[0].value += 0.03;
    registry = updated(registry, {&claim}, "2026-12-01", what, "a slip");
  }
  mark_former_rules(kept, registry);
  EXPECT_EQ(kept[0].rule_changed,
            "by a former rule, not judged by the present one yet; changed on 2026-12-01: margin 0.05, because a slip; changed on 2026-12-01: margin 0.06, because a slip");
  EXPECT_EQ(kept[1].rule_changed, "") << "judged before rules were registered";
}

struct Judge {
  thinwire::testing::TemporaryFolder folder;
  CellRunner cells{{folder.path(), folder.path(), "", std::make_shared<sweep::Machine>()}, sweep::IfCodeChanged::error};
  JudgeContext context{Profile::standard, folder.path(), cells};
};

TEST(Engine, TheRuleGivesTheVerdictAndTheEntrySaysWhichRuleRegisteredWhen) {
  Judge j;
  const Claim claim = training_claim();
  const Judged judged = judge(claim, j.context, updated({}, {&claim}, "2026-11-22", "", ""));
  EXPECT_EQ(judged.outcome.verdict, Verdict::confirmed);
  EXPECT_EQ(judged.registered, "2026-11-22");
  EXPECT_EQ(judged.rule_hash, rule_hash(claim));
  EXPECT_EQ(judge(claim, j.context, {}).registered, "") << "not in the register";
}

TEST(Engine, SeedsGrowOnlyWhileTheRuleIsInconclusive) {
  Judge j;
  std::vector<int> asked;
  Claim claim = training_claim();
  claim.seeds = {3, 5, 10};
  claim.measure = [&](JudgeContext& context) {
    asked.push_back(context.seeds());
    return Finding{context.seeds() < 5 ? difference(0.02, 0.015, 0.025) : difference(0.005, 0.001, 0.009)};
  };
  EXPECT_EQ(judge(claim, j.context, {}).outcome.verdict, Verdict::confirmed);
  EXPECT_EQ(asked, (std::vector<int>{3, 5}));
}

TEST(Engine, AFindingMayOnlySayWhyThereIsNoVerdict) {
  Judge j;
  Claim claim = training_claim();
  claim.measure = [](JudgeContext&) { return Finding{.measures = {}, .note = "rank 2 ended above the unigram entropy", .instead = Verdict::unstable}; };
  const Judged judged = judge(claim, j.context, {});
  EXPECT_EQ(judged.outcome.verdict, Verdict::unstable);
  EXPECT_EQ(judged.outcome.because, "rank 2 ended above the unigram entropy");
  claim.measure = [](JudgeContext&) { return Finding{.measures = {}, .note = "", .instead = Verdict::confirmed}; };
  EXPECT_THROW((void)judge(claim, j.context, {}), std::logic_error);
}

TEST(Engine, WhatRestsOnTermsThatNobodyValidatedIsModelOnly) {
  Judge j;
  Claim claim = training_claim();
  claim.not_validated = "the broadcast term";
  const Judged judged = judge(claim, j.context, {});
  EXPECT_EQ(judged.outcome.verdict, Verdict::model_only);
  EXPECT_NE(judged.outcome.because.find("by the model CONFIRMED; not validated for this use: the broadcast term"), std::string::npos) << judged.outcome.because;
}

TEST(Engine, AnEarlierVerdictStaysVisible) {
  Judge j;
  Claim claim = training_claim();
  std::vector<Judged> kept;
  EXPECT_TRUE(keep_verdict(kept, judge(claim, j.context, {})));
  EXPECT_TRUE(keep_verdict(kept, judge(claim, j.context, {})));
  EXPECT_TRUE(kept[0].earlier.empty()) << "the same once more is no history";
  claim.rule.constants[0].value = 0.001;
  EXPECT_TRUE(keep_verdict(kept, judge(claim, j.context, {})));
  ASSERT_EQ(kept[0].earlier.size(), 1u);
  EXPECT_EQ(kept[0].earlier[0].verdict, Verdict::confirmed);
  EXPECT_NE(kept[0].earlier[0].rule_hash, kept[0].rule_hash);
  EXPECT_EQ(to_json(from_json(to_json(kept), "x")), to_json(kept));
  EXPECT_NE(to_text(kept).find("earlier: "), std::string::npos);
}

}  // namespace
}  // namespace thinwire::claims
