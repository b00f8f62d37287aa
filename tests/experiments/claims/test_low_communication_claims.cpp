// labels: unit
// The claims of low communication: every training that they ask for is one that train_gpt takes, arms get the
// learning rate that ended lowest, and differences are nats where a claim says so.
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/claims/plan.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"
#include "tests/experiments/claims/made_up_cells.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::cells_in;
using thinwire::testing::cells_of_claim;

std::string text(const CellRequest& request, const std::string& name) {
  return results::to_text(request.parameters.values().at(name));
}

// An option that does not exist, a codec that does not parse or settings that do not go together would be
// found hours later.
TEST(LowCommunicationClaims, AskForTrainingsThatExist) {
  std::size_t trainings = 0;
  for (const Claim* claim : claims_named("low_communication"))
    for (const CellRequest& request : cells_of_claim(*claim, 3)) {
      if (request.program != "train_gpt") continue;
      ++trainings;
      CellRequest plain = request;
      results::Parameters options;
      for (const auto& [name, value] : request.parameters.values())
        if (name != "plan") options.set(name, value);
      plain.parameters = options;
      EXPECT_NO_THROW((void)sharded_compression::config_of(plain))
          << claim->id << " " << text(request, "optimizer");
    }
  EXPECT_GT(trainings, 80u);
}

/// A record of this loss at the end.
void keep(const std::string& folder, const CellRequest& request, double loss) {
  results::CellRecord record;
  record.program = request.program, record.ranks = request.ranks, record.link = request.link,
  record.parameters = request.parameters;
  record.cell_id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
  record.rows.emplace_back().cell_id = record.cell_id;
  results::TrainingCurveRow& row = record.training.curve.emplace_back();
  row.cell_id = record.cell_id, row.step = 899, row.loss = loss, row.validation_loss = loss;
  results::write_cell_record(results::record_path(folder, record.cell_id), record);
}

TEST(LowCommunicationClaims, TrainEachArmAtTheRateThatEndedLowest) {
  const Claim& claim = *claims_named("low_communication.C3").front();
  const thinwire::testing::TemporaryFolder folder;
  const std::map<std::string, std::string> best = {{"dense", "0.012"}, {"DiLoCo", "0.003"}};
  const std::vector<CellRequest> tuning = cells_of_claim(claim, 3);
  ASSERT_EQ(tuning.size(), 6u) << "three rates of two arms";
  for (const CellRequest& request : tuning) {
    EXPECT_EQ(text(request, "seed"), "101");
    keep(folder.path(), request,
         text(request, "learning-rate") == best.at(text(request, "plan")) ? 1.5 : 1.6);
  }
  CellRunner cells = cells_in(folder.path());
  PlannedWork work;
  cells.only_plan(work);
  JudgeContext context{Profile::standard, folder.path(), cells};
  context.set_seeds(3);
  EXPECT_THROW((void)claim.measure(context), PlanEnds);
  ASSERT_EQ(work.cells.size(), 6u) << "three seeds of two arms";
  for (const CellRequest& request : work.cells) {
    EXPECT_EQ(text(request, "learning-rate"), best.at(text(request, "plan")));
    EXPECT_NE(text(request, "seed"), "101");
    keep(folder.path(), request,
         1.5 + 0.01 * std::stod(text(request, "seed")) + (text(request, "plan") == "DiLoCo" ? 0.015 : 0));
  }
  CellRunner again = cells_in(folder.path());
  PlannedWork nothing;
  again.only_plan(nothing);
  JudgeContext judging{Profile::standard, folder.path(), again};
  judging.set_seeds(3);
  const Finding found = claim.measure(judging);
  const auto lost = std::ranges::find(found.measures, std::string("lost"), &Measure::symbol);
  ASSERT_NE(lost, found.measures.end());
  EXPECT_NEAR(lost->value, 0.015, 1e-12) << "nats, not a part of the loss";
  EXPECT_EQ(decide(claim.rule, found.measures).verdict, Verdict::confirmed);
}

}  // namespace
}  // namespace thinwire::claims
