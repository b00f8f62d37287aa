// labels: unit
// sharded_compression.C15 over made-up cells: which cells it asks for, and that each verdict is reached by what it stands for.
#include <gtest/gtest.h>

#include <cmath>

#include "collectives/link/emulated_network.h"
#include "tests/experiments/claims/made_up_cells.h"
#include "models/training/config/train_options.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::cells_of_claim;
using thinwire::testing::judged_over;

const Claim& claim() { return *claims_named("sharded_compression.C15").front(); }

bool coded(const CellRequest& r) { return r.parameters.text("plan") == "SDP4Bit"; }

/// Steps of 100 ms of passes, 10 ms of codecs, and 100 Mbit or a part of it over the link.
struct Machine {
  double smaller = 5.8;    ///< what codecs make of the bytes that cross nodes
  double faster = 1;       ///< than these bytes say
  double codec_ms = 10;
  double model_off = 0;    ///< of each step
  double flat_below = 0;   ///< Gbit/s: slower links are as fast as this one
};

void fill(const Machine& machine, const CellRequest& request, results::CellRecord& record) {
  const bool is_coded = coded(request), rated = EmulatedLink::is_emulated(request.link);
  const double gbps = rated ? std::fmax(EmulatedLink::parse(request.link).gbps, machine.flat_below) : INFINITY;
  const double step_ms = 100 / (is_coded && rated ? machine.faster : 1) + (is_coded ? machine.codec_ms : 0) + 100 / gbps / (is_coded ? machine.smaller * machine.faster : 1);
  for (int i = 0; i < 6; ++i) {
    results::SampleRow& sample = record.samples.emplace_back();
    sample.cell_id = record.cell_id, sample.traffic = "step", sample.repetition = i, sample.total_us = 1e3 * (step_ms + 0.01 * i);
  }
  for (const char* traffic : {"param_all_gather.across", "grad_reduce_scatter.across"}) {
    results::TrainingStepRow& row = record.training.steps.emplace_back();
    row.cell_id = record.cell_id, row.traffic = traffic, row.codec = is_coded ? "group" : "none", row.link_bytes = is_coded ? static_cast<std::int64_t>(1e6 / machine.smaller) : 1000000;
  }
  if (rated) record.training.prediction.push_back({record.cell_id, request.parameters.text("plan"), request.link, "step", step_ms * (1 + machine.model_off)});
}

Outcome judged(const Machine& machine) {
  return judged_over(claim(), 2, [&](const CellRequest& request, results::CellRecord& record) { fill(machine, request, record); });
}

TEST(Sdp4bitSpeed, AsksForTwoMeshesAndFourLinksAndSharedMemory) {
  const std::vector<CellRequest> cells = cells_of_claim(claim(), 2);
  EXPECT_EQ(cells.size(), 2u * (2 * 4 * 2 + 4 + 2));
  std::size_t in_memory = 0;
  for (const CellRequest& cell : cells) {
    EXPECT_TRUE(cell.timed);
    TrainValues values;
    for (const auto& [name, value] : cell.parameters.values())
      if (name != "plan") values[name] = results::to_text(value);
    const TrainConfig config = make_train_config(values);
    EXPECT_NO_THROW(config.check());
    EXPECT_EQ(config.mesh.ranks(), cell.ranks);
    in_memory += cell.link == "shm" ? 1u : 0u;
    if (cell.link != "shm") {
      EXPECT_EQ(2 * EmulatedLink::parse(cell.link).ranks_per_node, cell.ranks) << "two nodes";
    }
  }
  EXPECT_EQ(in_memory, 4u);
}

TEST(Sdp4bitSpeed, IsConfirmedWhereSlowLinksGainMostAndTheModelKnowsIt) {
  const Outcome outcome = judged({});
  EXPECT_EQ(outcome.verdict, Verdict::confirmed) << outcome.because;
  // 100 ms of passes and 1000 ms of transfers against 110 ms and 1000 / 5.8 ms.
  EXPECT_NEAR(outcome.measures[0].value, 1100 / (110 + 1000 / 5.8), 1e-3);
  ASSERT_EQ(outcome.tables.size(), 1u);
  EXPECT_EQ(outcome.tables[0].rows.size(), 2u * 4 + 1);
}

TEST(Sdp4bitSpeed, SaysWhatElseItMayFind) {
  EXPECT_EQ(judged({.smaller = 2}).verdict, Verdict::direction_only) << "2x at most";
  EXPECT_EQ(judged({.model_off = 0.2}).verdict, Verdict::direction_only);
  EXPECT_EQ(judged({.smaller = 1.05, .codec_ms = 500}).verdict, Verdict::not_reproduced) << "slower everywhere";
  EXPECT_EQ(judged({.flat_below = 0.4}).verdict, Verdict::not_reproduced) << "no more gain below 0.4 Gbit/s";
}

// All that is left of it is the other repetition, by which it would be CONFIRMED.
TEST(Sdp4bitSpeed, IsSkippedWhereACellIs) {
  const Outcome outcome = judged_over(claim(), 2, [](const CellRequest& request, results::CellRecord& record) {
    if (coded(request) && request.ranks == 8 && request.parameters.integer("seed") == 1)
      thinwire::testing::skip(request, record, "no shared memory");
    else
      fill({}, request, record);
  });
  EXPECT_EQ(outcome.verdict, Verdict::skipped) << outcome.because;
  EXPECT_NE(outcome.because.find("no shared memory"), std::string::npos) << outcome.because;
}

TEST(Sdp4bitSpeed, IsInvalidWhereItsControlsFail) {
  EXPECT_EQ(judged({.smaller = 3, .faster = 2}).verdict, Verdict::invalid) << "gains more than its bytes allow";
  EXPECT_EQ(judged({.codec_ms = 0}).verdict, Verdict::invalid) << "no loss in shared memory";
}

}  // namespace
}  // namespace thinwire::claims
