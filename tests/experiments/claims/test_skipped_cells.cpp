// labels: unit
// timeout: 400
// A claim that needs a cell which cannot be measured here is SKIPPED, whatever its other cells say; and a number that is none is neither exact nor the best.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "experiments/claims/interval.h"
#include "tests/experiments/claims/made_up_cells.h"

namespace thinwire::claims {
namespace {

using thinwire::testing::all_cells_of_claim;
using thinwire::testing::cells_of_claim;
using thinwire::testing::judged_over;
using thinwire::testing::skip;

const char* const reason = "namespaces are not permitted here";

bool on_link(const CellRequest& r) { return r.link.starts_with("netns:") || r.link.starts_with("emulated:"); }
std::string id_of(const CellRequest& r) { return results::cell_id(r.program, r.ranks, r.link, r.parameters); }

/// Something of what every program leaves behind, so that claims get as far as to ask for cells on links.
void fill(const CellRequest& request, results::CellRecord& record) {
  record.rows.front().program = request.program, record.rows.front().link = request.link;
  for (int i = 0; i < 6; ++i) {
    results::SampleRow& sample = record.samples.emplace_back();
    sample.cell_id = record.cell_id, sample.traffic = "step", sample.repetition = i, sample.total_us = 1000 + i;
  }
  if (request.parameters.has("plan")) record.training.curve.push_back({record.cell_id, request.parameters.text("plan"), 0, 1.5, 1.5});
  if (request.program != "bench_token_slices") return;
  const std::int64_t granularity = request.parameters.integer("granularity"), seq = request.parameters.integer("seq");
  record.rows.clear();
  for (std::int64_t batch = 1; batch <= request.parameters.integer("batch"); ++batch)
    for (std::int64_t tokens = granularity; tokens <= seq; tokens += granularity)
      for (std::int64_t before = 0; before + tokens <= seq; before += seq / 4)
        for (const char* pass : {"forward after ", "backward after "}) {
          results::CellRow& row = record.rows.emplace_back();
          row.cell_id = record.cell_id, row.program = request.program, row.operation = pass + std::to_string(before);
          row.batch = batch, row.seq = tokens, row.total_us = static_cast<double>(batch * tokens);
        }
}

/// Those that need each of their cells on links. optimus_cc.C15 leaves out rates that a machine does not carry, by its rule.
std::vector<const Claim*> claims_on_links() {
  const std::set<std::string> leave_out = {"optimus_cc.C15a", "optimus_cc.C15b"}, of_another_basis = {"low_communication.C23", "activation_compression.C9"};
  std::vector<const Claim*> found;
  for (const Claim* claim : all_claims()) {
    const bool by_basis = claim->basis == Basis::emulated_link || claim->basis == Basis::namespaces;
    if (claim->measure && !leave_out.contains(claim->id) && (by_basis || of_another_basis.contains(claim->id))) found.push_back(claim);
  }
  return found;
}

std::vector<std::string> linked_of(const std::vector<CellRequest>& cells) {
  std::vector<std::string> ids;
  for (const CellRequest& request : cells)
    if (on_link(request)) ids.push_back(id_of(request));
  return ids;
}

int first_seeds(const Claim& claim) { return claim.seeds.empty() ? 1 : claim.seeds.front(); }

TEST(SkippedCells, OneOnALinkSkipsItsClaim) {
  for (const Claim* claim : claims_on_links()) {
    std::vector<CellRequest> cells = cells_of_claim(*claim, first_seeds(*claim));
    std::vector<std::string> linked = linked_of(cells);
    if (linked.size() < 2) cells = all_cells_of_claim(*claim, first_seeds(*claim), fill), linked = linked_of(cells);  // they come after others
    ASSERT_GE(linked.size(), 2u) << claim->id << " asks for no cells on links";
    const Outcome outcome = judged_over(*claim, cells, [&](const CellRequest& request, results::CellRecord& record) {
      fill(request, record);
      if (id_of(request) == linked[1]) skip(request, record, reason);
    });
    EXPECT_EQ(outcome.verdict, Verdict::skipped) << claim->id << ": " << outcome.because;
    EXPECT_NE(outcome.because.find(reason), std::string::npos) << claim->id << ": " << outcome.because;
  }
}

/// A codec of theta 64 / rank Gbit/s, and messages of 1024 x 1920 numbers that take what it and the link say.
void fill_message(const CellRequest& request, results::CellRecord& record) {
  const std::string codec = request.parameters.text("codec");
  const double rank = std::stod(codec.substr(codec.find('=') + 1)), rho = 1024.0 * 1920 / ((1024 + 1920) * rank), coding_us = 1e-3 * 32 * 1024 * 1920 * rank / 64;
  results::CellRow& row = record.rows.front();
  row.program = request.program, row.link = request.link;
  row.encode_us = row.decode_us = coding_us / 2;
  if (!on_link(request)) return;
  row.traffic = "pp_forward";
  row.baseline_us = 1e-3 * 32 * 1024 * 1920 / std::stod(request.link.substr(request.link.find(':') + 1));
  row.total_us = row.baseline_us / rho + coding_us;
}

// Codecs are measured alone: without the speed of one no gain can be predicted. Rates that are not there are left out, and with all of them the claim.
TEST(SkippedCells, OfTheCodecsSpeedSkipTheClaimOnItsGain) {
  const Claim& claim = *claims_named("optimus_cc.C15b").front();
  const std::vector<CellRequest> cells = all_cells_of_claim(claim, 1, fill_message);
  const auto judged = [&](const std::function<bool(const CellRequest&)>& skipped) {
    return judged_over(claim, cells, [&](const CellRequest& request, results::CellRecord& record) {
      fill_message(request, record);
      if (skipped(request)) skip(request, record, reason);
    });
  };
  const Outcome all = judged([](const CellRequest&) { return false; });
  EXPECT_EQ(all.verdict, Verdict::confirmed) << all.because;
  ASSERT_EQ(cells.front().program, "bench_codec");
  const Outcome codec = judged([&](const CellRequest& r) { return id_of(r) == id_of(cells.front()); });
  EXPECT_EQ(codec.verdict, Verdict::skipped) << codec.because;
  const Outcome links = judged(on_link);
  EXPECT_EQ(links.verdict, Verdict::skipped) << links.because;
  EXPECT_NE(links.because.find(reason), std::string::npos) << links.because;
}

TEST(SkippedCells, AreThoseOfWhichNoRowWasMeasured) {
  results::CellRecord grids;
  grids.rows.resize(2);
  grids.rows[0].status = "SKIPPED";
  EXPECT_NO_THROW(require_measured({&grids, 1})) << "a grid that does not divide the sizes";
  grids.rows[1].status = "SKIPPED";
  EXPECT_THROW(require_measured({&grids, 1}), CellSkipped);
}

TEST(Interval, AQuotientByWhatMayBeNothingIsUnbounded) {
  const Interval share = quotient_of({.mean = 2, .low = 1, .high = 3}, {.mean = 8, .low = 6, .high = 10});
  EXPECT_DOUBLE_EQ(share.mean, 0.25);
  EXPECT_DOUBLE_EQ(share.low, 0.1);
  EXPECT_DOUBLE_EQ(share.high, 0.5);
  const Interval negative = quotient_of({.mean = -2, .low = -3, .high = -1}, {.mean = 8, .low = 6, .high = 10});
  EXPECT_DOUBLE_EQ(negative.low, -0.5);
  EXPECT_DOUBLE_EQ(negative.high, -0.1);
  const Interval unknown = quotient_of({.mean = 0.5, .low = -1, .high = 2}, {.mean = 2, .low = -0.1, .high = 5});
  const Rule rule{.quantities = {{"share", "a quotient"}},
                  .constants = {{"most", 0.8, ""}, {"half", 0.5, ""}, {"resolution", 0.15, ""}},
                  .scatter = {{"share", "most", "resolution"}},
                  .clauses = {{Verdict::confirmed, "share.low >= most"}, {Verdict::not_reproduced, "share.high <= half"}},
                  .smallest_effect = "most"};
  EXPECT_EQ(decide(rule, {measure_of("share", unknown, 0.8, "", "share")}).verdict, Verdict::inconclusive);
  EXPECT_EQ(decide(rule, {measure_of("share", negative, 0.8, "", "share")}).verdict, Verdict::not_reproduced);
}

TEST(Interval, WhatIsNoNumberIsNeverTheLargest) {
  const Interval none, one{.mean = 1}, two{.mean = 2};
  EXPECT_TRUE(is_larger(one, none));
  EXPECT_TRUE(is_larger(two, one));
  EXPECT_FALSE(is_larger(one, two));
  EXPECT_FALSE(is_larger(none, one));
  EXPECT_FALSE(is_larger(none, none));
}

// ---- gradient_compression.C14 and C15: sums are 4 and 2 times as fast on the two links between namespaces, and slower in shared memory ----

void fill_sum(const CellRequest& request, results::CellRecord& record) {
  results::CellRow& row = record.rows.front();
  row.program = request.program, row.link = request.link, row.relative_l2 = 1e-7, row.ratio = 10;
  row.speedup = (request.link == "shm" ? 0.8 : request.link == "netns:1gbit" ? 2 : 4) + 0.01 * static_cast<double>(request.parameters.integer("seed"));
}

Outcome judged_sums(const std::string& id, const std::function<void(const CellRequest&, results::CellRecord&)>& change) {
  return judged_over(*claims_named(id).front(), 3, [&](const CellRequest& request, results::CellRecord& record) {
    fill_sum(request, record);
    change(request, record);
  });
}
double best_of(const Outcome& outcome) { return std::ranges::find(outcome.measures, "best", &Measure::symbol)->value; }

TEST(LhcSpeed, WithoutNamespacesSharedMemoryDoesNotSpeakForThem) {
  for (const char* id : {"gradient_compression.C14", "gradient_compression.C15"}) {
    const Outcome outcome = judged_sums(id, [](const CellRequest& request, results::CellRecord& record) {
      if (on_link(request)) skip(request, record, reason);
    });
    EXPECT_EQ(outcome.verdict, Verdict::skipped) << id << ": " << outcome.because;
    EXPECT_NE(outcome.because.find("bench_gradient on netns:100mbit was not measured: " + std::string(reason)), std::string::npos) << id << ": " << outcome.because;
  }
}

TEST(LhcSpeed, AnErrorOrASpeedUpThatIsNoNumberIsNeitherExactNorTheBest) {
  const std::string id = "gradient_compression.C14";
  const Outcome all = judged_sums(id, [](const CellRequest&, results::CellRecord&) {});
  EXPECT_NEAR(best_of(all), 4.02, 1e-9);
  EXPECT_EQ(all.verdict, Verdict::direction_only) << all.because;
  const Outcome no_error = judged_sums(id, [](const CellRequest& request, results::CellRecord& record) {
    if (request.link == "netns:100mbit") record.rows.front().relative_l2 = no_number;
  });
  EXPECT_NEAR(best_of(no_error), 2.02, 1e-9);
  const Outcome no_time = judged_sums(id, [](const CellRequest& request, results::CellRecord& record) {
    if (request.link == "netns:1gbit") record.rows.front().speedup = no_number;
  });
  EXPECT_NEAR(best_of(no_time), 4.02, 1e-9) << "it comes after the best and does not displace it";
}

}  // namespace
}  // namespace thinwire::claims
