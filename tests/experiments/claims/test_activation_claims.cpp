// labels: unit
// timeout: 400
// What the claims about compressed activations stand on: differences in nats, retention of fine-tuned models over the tasks that count, and what is said without a pre-trained model.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "experiments/claims/activation_compression/cells/watched_training.h"
#include "experiments/claims/fine_tuning/fine_tuned.h"
#include "experiments/claims/plan.h"
#include "made_up_cells.h"

namespace thinwire::claims {
namespace {

using testing::judged_over;

std::string plan_of(const CellRequest& request) { return results::to_text(request.parameters.values().at("plan")); }
std::string data_of(const CellRequest& request) { return results::to_text(request.parameters.values().at("data")); }
int seed_of(const CellRequest& request) { return std::stoi(results::to_text(request.parameters.values().at("seed"))); }
const Measure& measure_named(const Outcome& outcome, const std::string& symbol) {
  const auto found = std::ranges::find(outcome.measures, symbol, &Measure::symbol);
  EXPECT_NE(found, outcome.measures.end()) << symbol;
  return *found;
}

/// A claim on final losses over made-up cells: 2 nats for the dense arm of seed 1, a seed's offset and an arm's loss on top.
Outcome over_losses(const std::string& id, const std::map<std::string, double>& lost, double scatter = 0.001) {
  return judged_over(*claims_named(id).front(), 10, [&](const CellRequest& request, results::CellRecord& record) {
    double loss = 2 + 0.01 * seed_of(request);
    for (const auto& [arm, more] : lost)
      if (plan_of(request) == arm) loss += more + scatter * (seed_of(request) % 3 - 1);
    record.training.curve.push_back({record.cell_id, plan_of(request), 699, loss, loss});
  });
}

TEST(ActivationLosses, AreJudgedInNatsPairedOverSeeds) {
  const std::string ten = "Top-10 %, own masks", five = "Top-5 %, own masks";
  const Outcome limit = over_losses("activation_compression.C17", {{ten, 0.03}, {five, 0.2}});
  EXPECT_EQ(limit.verdict, Verdict::confirmed) << limit.because;
  EXPECT_NEAR(measure_named(limit, "ten").value, 0.03, 1e-12) << "nats, not a part of the baseline's loss";
  EXPECT_EQ(over_losses("activation_compression.C17", {{ten, 0.2}, {five, 0.4}}).verdict, Verdict::not_reproduced);
  EXPECT_EQ(over_losses("activation_compression.C17", {{ten, 0.01}, {five, 0.02}}).verdict, Verdict::not_reproduced);
  EXPECT_EQ(over_losses("activation_compression.C17", {{ten, 0.05}, {five, 0.2}}, 0.05).verdict, Verdict::inconclusive) << "the scatter hides it";
  EXPECT_EQ(over_losses("activation_compression.C17", {{ten, 3.0}, {five, 3.0}}).verdict, Verdict::unstable) << "above the unigrams";
}

TEST(ActivationLosses, LevelsAreCounted) {
  const auto judged = [](double back_20, double back_5, double bits_4, double bits_2) {
    return over_losses("activation_compression.C15", {{"Top-20 % backward", back_20}, {"Top-5 % backward", back_5}, {"4 bits backward", bits_4}, {"2 bits backward", bits_2}, {"Top-5 % forward", 0.1}}).verdict;
  };
  EXPECT_EQ(judged(0.05, 0.2, 0, 0), Verdict::confirmed) << "two of the two levels that lose anything";
  EXPECT_EQ(judged(0, 0.02, 0, 0), Verdict::not_reproduced) << "reversed at the one level that loses";
  EXPECT_EQ(judged(0.05, 0.02, 0.04, 0), Verdict::inconclusive) << "reversed at one of three";
  EXPECT_EQ(over_losses("activation_compression.C15", {}).verdict, Verdict::inconclusive) << "no level loses anything";
}

TEST(ActivationLosses, TheSlopeOverLayersIsThatOfALine) {
  for (const double per_layer : {0.02, -0.004}) {
    std::map<std::string, double> lost;
    for (const char* method : {"auto-encoder, 5 %", "Top-5 %", "2 bits"})
      for (int n = 1; n <= 4; ++n) lost[std::string(method) + ", layers " + (n == 1 ? "3" : std::to_string(4 - n) + "-3")] = per_layer * n;
    const Outcome outcome = over_losses("activation_compression.C4a", lost, 0);
    EXPECT_NEAR(measure_named(outcome, "slope").value, per_layer, 1e-9);
    EXPECT_EQ(outcome.verdict, per_layer > 0 ? Verdict::confirmed : Verdict::not_reproduced) << outcome.because;
  }
}

/// Dense arms reach 0.5 above chance, those from scratch `scratch`; an arm loses its part of that; seeds differ by 0.01 in all arms alike.
Outcome over_metrics(const std::string& id, const std::map<std::string, double>& kept, const std::map<std::string, double>& scratch, int seeds = 10) {
  return judged_over(*claims_named(id).front(), seeds, [&](const CellRequest& request, results::CellRecord& record) {
    if (request.parameters.values().contains("from-sha256")) record.rows.front().repro = "train_gpt --from " + request.parameters.text("from") + " --from-sha256 " + request.parameters.text("from-sha256") + " --seed 1";
    for (const TuningTask& task : first_tasks()) {
      if (data_of(request) != "task:name=" + task.name) continue;
      double above = 0.5;
      if (const auto found = kept.find(plan_of(request)); found != kept.end()) above *= found->second;
      if (plan_of(request) == "from scratch") above = scratch.at(task.name);
      record.training.metrics.push_back({record.cell_id, plan_of(request), 99, task.metric, 0.123});  // not the last
      record.training.metrics.push_back({record.cell_id, plan_of(request), 199, task.metric, task.chance + above + 0.01 * seed_of(request) - 0.02});
    }
    EXPECT_EQ(request.parameters.values().contains("from"), plan_of(request) != "from scratch");
  });
}
const std::map<std::string, double> learns_little = {{"acc", 0.1}, {"par", 0.2}, {"sim", 0.3}, {"nli", 0.4}};

TEST(Retention, IsWhatIsLeftAboveChanceOverTheTasksThatCount) {
  const std::string one = "T1: Top-K, 0.98 %", ten = "T4: Top-K, 9.8 %";
  const Outcome lost = over_metrics("activation_compression.C2a", {{one, 0.3}, {ten, 0.95}}, learns_little);
  EXPECT_EQ(lost.verdict, Verdict::confirmed) << lost.because;
  EXPECT_NEAR(measure_named(lost, "top_1").value, 0.3, 1e-9);
  EXPECT_NEAR(measure_named(lost, "top_10").value, 0.95, 1e-9);
  EXPECT_NEAR(measure_named(lost, "top_1").high, 0.3, 1e-9) << "what a seed does to both arms is no scatter";
  EXPECT_EQ(measure_named(lost, "tasks").value, 4);
  EXPECT_EQ(over_metrics("activation_compression.C2b", {{one, 0.3}, {ten, 0.95}}, learns_little).verdict, Verdict::confirmed);
  EXPECT_EQ(over_metrics("activation_compression.C2b", {{one, 0.3}, {ten, 0.6}}, learns_little).verdict, Verdict::not_reproduced);
  EXPECT_EQ(over_metrics("activation_compression.C2a", {{one, 0.95}}, learns_little).verdict, Verdict::not_reproduced);
}

TEST(Retention, ATaskOnWhichPreTrainingGainsTooLittleIsNoTest) {
  std::map<std::string, double> scratch = learns_little;
  scratch["nli"] = 0.49;
  const Outcome three = over_metrics("activation_compression.C2a", {{"T1: Top-K, 0.98 %", 0.3}}, scratch);
  EXPECT_EQ(three.verdict, Verdict::confirmed);
  EXPECT_EQ(measure_named(three, "tasks").value, 3);
  EXPECT_NE(three.because.find("NO TEST, for pre-training gains too little: nli"), std::string::npos) << three.because;
  scratch["sim"] = 0.49;
  EXPECT_EQ(over_metrics("activation_compression.C2a", {{"T1: Top-K, 0.98 %", 0.3}}, scratch).verdict, Verdict::not_decidable);
  scratch["acc"] = scratch["par"] = 0.5;
  EXPECT_EQ(over_metrics("activation_compression.C2a", {}, scratch).verdict, Verdict::not_decidable) << "no task counts";
}

// What was lost in pre-training is what an arm brought along; each arm's model is found by its own folder.
TEST(Retention, OfModelsThatWerePreTrainedWithCodecs) {
  const Outcome outcome = over_metrics("activation_compression.C12", {{"pre-trained with A2", 0.99}, {"pre-trained with T4", 0.8}}, learns_little, 3);
  EXPECT_EQ(outcome.verdict, Verdict::not_reproduced) << outcome.because;
  EXPECT_NEAR(measure_named(outcome, "encoder").value, 0.99, 1e-9);
  EXPECT_NEAR(measure_named(outcome, "ten").value, 0.8, 1e-9);
}

TEST(Corner, SaysNothingMoreThanADirection) {
  const auto judged = [](double dense, double top, double bits) {
    return judged_over(*claims_named("activation_compression.M1").front(), 1, [&](const CellRequest& request, results::CellRecord& record) {
      const std::string plan = plan_of(request);
      record.training.metrics.push_back({record.cell_id, plan, 249, "accuracy", dense - (plan.starts_with("T1") ? top : plan.starts_with("Q2") ? bits : 0)});
    });
  };
  const Outcome lost = judged(0.7, 0.1, 0.01);
  EXPECT_EQ(lost.verdict, Verdict::direction_only) << lost.because;
  EXPECT_NEAR(measure_named(lost, "top_1").value, 0.1, 1e-12);
  EXPECT_EQ(judged(0.7, 0.01, 0.1).verdict, Verdict::not_reproduced);
  EXPECT_EQ(judged(0.7, 0.02, 0.0).verdict, Verdict::inconclusive);
  EXPECT_EQ(judged(0.56, 0.1, 0.0).verdict, Verdict::not_decidable) << "it learned nothing to lose";
  const thinwire::testing::TemporaryFolder folder;
  CellRunner cells = testing::cells_in(folder.path());
  JudgeContext context{Profile::quick, folder.path(), cells};
  const Outcome absent = judge(*claims_named("activation_compression.M1").front(), context, {}).outcome;
  EXPECT_EQ(absent.verdict, Verdict::skipped);
  EXPECT_NE(absent.because.find("experiments/text_tasks/corner.sh --out " + folder.path() + "/text_corner"), std::string::npos) << absent.because;
}

// Straight curves: a loss is reached after `slower` times as many steps.
TEST(StepsToALoss, AreReadOffTheCurves) {
  const auto judged = [](double slower) {
    return judged_over(*claims_named("activation_compression.C26b").front(), 3, [&](const CellRequest& request, results::CellRecord& record) {
      const double times = plan_of(request).starts_with("bottleneck") ? slower + 0.001 * seed_of(request) : 1;
      for (int steps = 35; steps <= 1400; steps += 35) record.training.curve.push_back({record.cell_id, plan_of(request), steps - 1, 0.0, 3 - 2 * steps / times / 1400});
    });
  };
  const Outcome slow = judged(1.2);
  EXPECT_NEAR(measure_named(slow, "bottleneck").value, 1.202, 1e-9) << slow.because;
  EXPECT_NEAR(measure_named(slow, "blocks").value, 1, 1e-9);
  EXPECT_EQ(slow.verdict, Verdict::confirmed) << slow.because;
  EXPECT_EQ(judged(0.99).verdict, Verdict::not_reproduced);
  EXPECT_NE(judged(2.5).because.find("never came down"), std::string::npos);
}

// Times that follow the model exactly give its constants back.
TEST(CostModel, IsFittedToTheStepsAndCarriedOn) {
  const auto layer = [](double h, bool coded) { return 2e-9 * (96 * 8 * 128 * h * h + 16 * 8.0 * 128 * 128 * h) + (coded ? 1e-6 : 2e-5) * 8 * 128 * h + (coded ? 1.5 : 0.5); };
  const Outcome outcome = judged_over(*claims_named("activation_compression.C8").front(), 3, [&](const CellRequest& request, results::CellRecord& record) {
    const double ms = 4 * layer(static_cast<double>(request.parameters.integer("hidden")), plan_of(request) == "coded");
    for (int step = 0; step < 6; ++step) record.samples.push_back({.cell_id = record.cell_id, .traffic = "step", .repetition = step, .total_us = 1e3 * ms});
  });
  EXPECT_NEAR(measure_named(outcome, "fit").value, 1, 1e-9);
  EXPECT_NEAR(measure_named(outcome, "far").value, layer(25600, false) / layer(25600, true), 1e-6);
  EXPECT_NEAR(measure_named(outcome, "most").value, layer(192, false) / layer(192, true), 1e-6);
  EXPECT_EQ(outcome.verdict, Verdict::confirmed) << outcome.because;
}

TEST(KeptElements, PayBelowTheRateThatTheirCodingAllows) {
  const auto judged = [](double faster) {
    return judged_over(*claims_named("activation_compression.C6a").front(), 3, [&](const CellRequest& request, results::CellRecord& record) {
      results::CellRow& row = record.rows.front();
      row.traffic = "tp_forward", row.baseline_link_bytes = 1000000, row.link_bytes = 500000;
      row.encode_us = (request.parameters.text("method") == "T2" ? 1 : 2) * 700 / faster, row.decode_us = 300 / faster;
    });
  };
  const Outcome slow = judged(1);
  EXPECT_NEAR(measure_named(slow, "most").value, 8 * 500000 / 1000e-6 * 1e-9, 1e-9);
  EXPECT_EQ(slow.verdict, Verdict::confirmed) << slow.because;
  EXPECT_EQ(judged(100).verdict, Verdict::not_reproduced);
}

TEST(StudyFolder, WithoutAPreTrainedModelAClaimIsSkippedAndPlanned) {
  const thinwire::testing::TemporaryFolder folder;
  const Claim& claim = *claims_named("activation_compression.C2a").front();
  CellRunner cells = testing::cells_in(folder.path());
  JudgeContext context{Profile::standard, folder.path(), cells};
  const Outcome outcome = judge(claim, context, {}).outcome;
  EXPECT_EQ(outcome.verdict, Verdict::skipped);
  EXPECT_NE(outcome.because.find("experiments/text_tasks/pretrain.sh --out " + folder.path() + "/text_study"), std::string::npos) << outcome.because;
  const std::vector<ClaimPlan> plans = plan_claims({&claim}, context, CellTimes());
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].work.cells.size(), 4u * 8 * 3) << "tasks, arms with the one from scratch, seeds";
  EXPECT_GT(plans[0].seconds, 0) << "the claim says what a cell takes";
  EXPECT_EQ(plans[0].without_time, 0);
}

TEST(StudyFolder, CellsNameTheModelByItsContent) {
  const FineTuning tuning = two_by_two("test", 10, first_tasks());
  const TuningTask task = first_tasks().front();
  const auto id = [&](const RuleArm& arm, const std::string& pretrained) {
    const CellRequest r = cell_of(tuning, task, arm, 1, pretrained);
    return results::cell_id(r.program, r.ranks, r.link, r.parameters);
  };
  EXPECT_NE(id({"dense", {}}, "aa"), id({"dense", {}}, "bb"));
  EXPECT_FALSE(cell_of(tuning, task, {"from scratch", {}}, 1, "").parameters.values().contains("from-sha256"));
}

TEST(Watched, TheShareOfEnergyCountsSingularValues) {
  using activation_compression::share_of_energy;
  EXPECT_DOUBLE_EQ(share_of_energy({1, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(share_of_energy({1, 1, 1, 1}), 1.0);
}

}  // namespace
}  // namespace thinwire::claims
