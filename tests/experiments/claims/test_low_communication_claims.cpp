// labels: unit
// The claims of low communication: every training that they ask for is one that train_gpt takes, arms get the
// inner and outer rate that ended lowest together, and differences are nats where a claim says so.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "experiments/claims/low_communication/cells/step_times.h"
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

/// A record of this loss at the end, and of steps that take so long.
void keep(const std::string& folder, const CellRequest& request, double loss, double seconds = 1) {
  results::CellRecord record;
  record.program = request.program, record.ranks = request.ranks, record.link = request.link,
  record.parameters = request.parameters;
  record.cell_id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
  record.rows.emplace_back().cell_id = record.cell_id;
  for (int step = 0; step < 3; ++step) {
    results::SampleRow& sample = record.samples.emplace_back();
    sample.cell_id = record.cell_id, sample.traffic = "step", sample.repetition = step, sample.total_us = seconds * 1e6;
  }
  results::TrainingCurveRow& row = record.training.curve.emplace_back();
  row.cell_id = record.cell_id, row.step = 899, row.loss = loss, row.validation_loss = loss;
  results::write_cell_record(results::record_path(folder, record.cell_id), record);
}

/// The outer rate that a run's optimizer names; empty: none.
std::string outer_rate(const CellRequest& request) {
  const std::string optimizer = text(request, "optimizer");
  const std::size_t at = optimizer.find(",rate=");
  if (at == std::string::npos) return "";
  return optimizer.substr(at + 6, optimizer.find(',', at + 6) - at - 6);
}

TEST(LowCommunicationClaims, TrainEachArmAtTheRatesThatEndedLowest) {
  const Claim& claim = *claims_named("low_communication.C3").front();
  const thinwire::testing::TemporaryFolder folder;
  // Inner rate, where it ends, outer rate; each of DiLoCo's is best with the other only.
  using Rates = std::array<std::string, 3>;
  const std::map<std::string, Rates> best = {{"dense", {"0.012", "0.0012", ""}},
                                             {"DiLoCo", {"0.003", "0.0003", "0.35"}}};
  const auto rates_of = [](const CellRequest& request) {
    return Rates{text(request, "learning-rate"), text(request, "min-lr"), outer_rate(request)};
  };
  const std::vector<CellRequest> tuning = cells_of_claim(claim, 3);
  ASSERT_EQ(tuning.size(), 12u) << "six rates of one arm, three inner and two outer ones of the other";
  for (const CellRequest& request : tuning) {
    EXPECT_EQ(text(request, "seed"), "101");
    EXPECT_DOUBLE_EQ(std::stod(text(request, "min-lr")), std::stod(text(request, "learning-rate")) / 10);
    keep(folder.path(), request, rates_of(request) == best.at(text(request, "plan")) ? 1.5 : 1.6);
  }
  CellRunner cells = cells_in(folder.path());
  PlannedWork work;
  cells.only_plan(work);
  JudgeContext context{Profile::standard, folder.path(), cells};
  context.set_seeds(3);
  EXPECT_THROW((void)claim.measure(context), PlanEnds);
  ASSERT_EQ(work.cells.size(), 6u) << "three seeds of two arms";
  for (const CellRequest& request : work.cells) {
    EXPECT_EQ(rates_of(request), best.at(text(request, "plan")));
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

// Equal tuning: as many runs for each, of which loops spend two on their own rate.
TEST(LowCommunicationClaims, TuneEveryArmBySixRuns) {
  const std::map<std::string, std::set<std::string>> of_loops = {
      {"dense", {""}},
      {"local SGD", {""}},
      {"DiLoCo", {"0.35", "0.7"}},
      {"Streaming DiLoCo", {"0.35", "0.7"}},
      {"MuLoCo", {"0.45", "0.9"}},
      {"SparseLoCo", {"1", "3.9"}},
      {"SparseLoCo without feedback", {"1", "3.9"}},
      {"SparseLoCo and outer momentum", {"0.35", "0.7"}},
      {"sign and scale of a chunk", {"1", "3.9"}}};
  std::set<std::string> seen;
  for (const char* id : {"C3", "C3b", "C4", "C5", "C6", "C7", "C7b", "C8", "C10", "C10b", "C11", "C14", "C15",
                         "C17", "C17b", "C18", "C21", "C23"}) {
    const Claim& claim = *claims_named(std::string("low_communication.") + id).front();
    std::map<std::string, std::set<std::string>> outer;
    std::map<std::string, int> runs;
    for (const CellRequest& request : cells_of_claim(claim, 3))
      if (request.link == "shm")
        ++runs[text(request, "plan")], outer[text(request, "plan")].insert(outer_rate(request));
    EXPECT_EQ(runs.size(), claim.rule.arms.size()) << id;
    for (const auto& [plan, count] : runs) {
      EXPECT_EQ(count, 6) << id << " " << plan;
      const auto loop = of_loops.find(plan);
      EXPECT_TRUE(loop == of_loops.end() || loop->second == outer.at(plan)) << id << " " << plan;
      seen.insert(plan);
    }
    EXPECT_FALSE(claim.rule.settings.contains("learning-rate"))
        << id << ": a rule that names the pilot's rate beside those that are tried";
  }
  for (const auto& [plan, rates] : of_loops) EXPECT_TRUE(seen.contains(plan)) << plan;
}

/// What a claim finds in made-up cells that it asks for one after the other.
Finding finding_of(const std::string& id, int seeds, const std::function<void(const CellRequest&, results::CellRecord&)>& fill) {
  const Claim& claim = *claims_named(id).front();
  const thinwire::testing::TemporaryFolder folder;
  for (;;) {
    CellRunner cells = cells_in(folder.path());
    PlannedWork work;
    cells.only_plan(work);
    JudgeContext context{Profile::full, folder.path(), cells};
    context.set_seeds(seeds);
    try {
      return claim.measure(context);
    } catch (const PlanEnds&) {
      for (const CellRequest& request : work.cells) thinwire::testing::write_made_up(folder.path(), request, fill);
    }
  }
}

/// And what it makes of that.
Decision judged(const std::string& id, int seeds, const std::function<void(const CellRequest&, results::CellRecord&)>& fill) {
  return decide(claims_named(id).front()->rule, finding_of(id, seeds, fill).measures);
}

void end_with(double loss, const CellRequest& request, results::CellRecord& record) {
  loss += 0.01 * std::stoi(text(request, "seed"));
  record.training.curve.push_back({record.cell_id, text(request, "plan"), 899, loss, loss});
}

TEST(UnequalTokens, ExplainAGainThatEqualOnesDoNotHave) {
  const auto verdict = [](double diloco, double quarter) {
    return judged("low_communication.C6", 5, [&](const CellRequest& request, results::CellRecord& record) {
             const std::string plan = text(request, "plan");
             const bool is_quarter = plan.find("quarter") != std::string::npos;
             EXPECT_EQ(request.parameters.values().contains("data"), is_quarter) << "other windows than those of the runs that it is compared with";
             end_with(1.5 + (plan == "DiLoCo" ? diloco : is_quarter ? quarter : 0), request, record);
           })
        .verdict;
  };
  EXPECT_EQ(verdict(0.01, 0.1), Verdict::confirmed);
  EXPECT_EQ(verdict(-0.03, 0.1), Verdict::not_reproduced) << "it gains at equal tokens, too";
  EXPECT_EQ(verdict(0.05, 0.02), Verdict::not_reproduced) << "it gains at none";
  EXPECT_EQ(verdict(0.01, 0.02), Verdict::inconclusive) << "a gain below what is plain";
}

// Steps to the dense run's loss are as many, or of a run that ends above it nobody knows how many; a step takes 0.4 s instead of 6 s at 100 Mbit/s.
TEST(TimeToLoss, ARunThatDoesNotArriveLeavesTheFastLinkAlone) {
  const auto of = [](int late_seeds, double fast_step) {
    return finding_of("low_communication.C23", 3, [&](const CellRequest& request, results::CellRecord& record) {
      const std::string plan = text(request, "plan");
      if (request.link == "shm") return end_with(plan == "DiLoCo" && std::stoi(text(request, "seed")) <= late_seeds ? 1.6 : 1.5, request, record);
      const bool is_fast = request.link.starts_with("emulated:10000mbit");
      EXPECT_TRUE(is_fast || request.link.starts_with("emulated:100mbit")) << request.link;
      results::SampleRow& sample = record.samples.emplace_back();
      sample.cell_id = record.cell_id, sample.traffic = "step", sample.total_us = 1e6 * (is_fast ? (plan == "dense" ? 0.25 : fast_step) : (plan == "dense" ? 6 : 0.4));
    });
  };
  const auto verdict = [](const Finding& f) { return decide(claims_named("low_communication.C23").front()->rule, f.measures).verdict; };
  const auto value = [](const Finding& f, const std::string& symbol) { return std::ranges::find(f.measures, symbol, &Measure::symbol)->value; };
  EXPECT_EQ(verdict(of(0, 0.25)), Verdict::confirmed);
  const Finding one = of(1, 0.25), all = of(3, 0.25);
  EXPECT_EQ(value(one, "censored"), 1);
  EXPECT_EQ(verdict(one), Verdict::not_decidable);
  EXPECT_NEAR(value(all, "ratio"), 0.4 / 6, 1e-12) << "it took its 900 steps at least";
  EXPECT_EQ(verdict(all), Verdict::not_decidable);
  EXPECT_EQ(verdict(of(3, 0.2)), Verdict::not_reproduced) << "it wins on the fast link, however many steps it takes";
}

// Outer steps 5 to 25 count, others are made up to be far off.
TEST(Alignment, IsTheMeanOfTheRoundsThatCount) {
  const auto verdict = [](const std::string& id, double more) {
    return judged(id, 5, [&](const CellRequest& request, results::CellRecord& record) {
             end_with(1.5, request, record);
             const std::string plan = text(request, "plan");
             for (int round = 1; round <= 30; ++round) {
               const bool counts = round >= 5 && round <= 25;
               const double cosine = !counts ? (plan == "MuLoCo, aligned" ? -1 : 1) : 0.5 + 0.01 * (round - 15) + (plan == "MuLoCo, aligned" ? more : 0) + 0.001 * (std::stoi(text(request, "seed")) % 3);
               record.training.metrics.push_back({record.cell_id, plan, 30 * round - 1, "outer_alignment", cosine});
             }
           })
        .verdict;
  };
  for (const char* id : {"low_communication.C16", "low_communication.C16b", "low_communication.C16c"}) {
    EXPECT_EQ(verdict(id, 0.05), Verdict::confirmed) << id;
    EXPECT_EQ(verdict(id, 0.01), Verdict::not_reproduced) << id;
    EXPECT_EQ(verdict(id, -0.1), Verdict::not_reproduced) << id;
  }
}

// docs/papers/low_communication.md, "Cost", for N weights of four replicas: a ring sends 1.5 times 4 N bytes,
// and what travels dense is one message.
TEST(StepTimes, AreThoseOfTheCostTable) {
  using namespace low_communication;
  require_model_of_cells();
  const double layer = 12 * 512 * 512, tables = (256 + 16) * 512, vectors = 4 * 13 * 512 + 2 * 512, n = 4 * layer + tables + vectors;
  const double rate = 12.5e6;  // bytes per second of 100 Mbit/s
  EXPECT_NEAR(modelled_exchange(dense_steps(), 0.1, passes_s), 6 * n / rate + 6 * 50e-6, 1e-9);
  EXPECT_NEAR(modelled_exchange(timed_method("DiLoCo"), 0.1, passes_s), (6 * n / rate + 6 * 50e-6) / 30,
              1e-9);
  // Layers 0 and 1, and the tables, are the first fragment; behind two steps of 0.2 s goes what is left.
  const double first = 6 * (2 * layer + tables + vectors) / rate + 6 * 50e-6,
               other = 6 * layer / rate + 6 * 50e-6;
  EXPECT_NEAR(modelled_exchange(timed_method("Streaming DiLoCo, overlap 2"), 0.1, passes_s), (first + 2 * other - 3 * 0.4) / 30, 1e-9);
  EXPECT_NEAR(modelled_exchange(timed_method("Streaming DiLoCo, overlap 2"), rate_for(timed_method("Streaming DiLoCo, overlap 2"), 0.02, passes_s), passes_s), 0.02 * passes_s, 1e-9);
  // 14 bits for 64 of 4096 elements, a code book of 16 bytes a matrix, vectors whole: three messages each.
  EXPECT_NEAR(modelled_exchange(timed_method("SparseLoCo"), 0.1, passes_s), (3 * ((4 * layer + 256 * 512 + 64 * 512) * 64 * 14 / 8 / 4096 + 18 * 16) / rate + 3 * 18 * 50e-6 + 6 * vectors / rate + 6 * 50e-6) / 30, 2e-5);
}

TEST(StepTimes, AModelThatHoldsIsConfirmedAndOneThatIsOffIsNot) {
  using namespace low_communication;
  const auto verdict = [](double factor) {
    const Claim& claim = *claims_named("low_communication.C22").front();
    const thinwire::testing::TemporaryFolder folder;
    Finding found;
    for (bool planned = false; !planned;) {  // the last cells are asked for once the others are there
      CellRunner cells = cells_in(folder.path());
      PlannedWork work;
      cells.only_plan(work);
      JudgeContext context{Profile::standard, folder.path(), cells};
      try {
        found = claim.measure(context);
        planned = true;
      } catch (const PlanEnds&) {
        for (const CellRequest& request : work.cells) {
          const bool omitted = request.parameters.values().contains("omit");
          const double gbps = omitted ? 0 : std::stod(request.link.substr(std::string("emulated:").size())) / 1e3, alone = passes_s + 0.03;
          const TimedMethod& method = timed_method(text(request, "plan"));
          double seconds = alone + (omitted ? 0 : modelled_exchange(method, gbps, alone));
          if (!omitted && method.name == "DiLoCo") seconds *= factor;
          keep(folder.path(), request, 2.0, seconds);
        }
      }
    }
    return decide(claim.rule, found.measures).verdict;
  };
  EXPECT_EQ(verdict(1), Verdict::confirmed);
  EXPECT_EQ(verdict(1.2), Verdict::not_reproduced);
}

}  // namespace
}  // namespace thinwire::claims
