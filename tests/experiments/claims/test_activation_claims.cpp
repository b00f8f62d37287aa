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
Outcome over_metrics(const std::string& id, const std::map<std::string, double>& kept, const std::map<std::string, double>& scratch) {
  return judged_over(*claims_named(id).front(), 10, [&](const CellRequest& request, results::CellRecord& record) {
    if (request.parameters.values().contains("from-sha256")) record.rows.front().repro = "train_gpt --from-sha256 " + results::to_text(request.parameters.values().at("from-sha256")) + " --seed 1";
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
