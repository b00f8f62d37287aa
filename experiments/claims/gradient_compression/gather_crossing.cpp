// gradient_compression.C24: an all-gather of Top-K messages grows with the ranks, a dense all-reduce does not: bytes that a rank sends of each, counted. Values f32 and positions
// int32, as the claim has it; beside it f16 and our coding of positions against a dense f16 sum.
#include <algorithm>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/cells/requests.h"
#include "experiments/claims/arms.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr std::int64_t rows = 240;  // every fraction of them is a whole number of elements on every number of ranks

struct Case {
  double fraction;
  std::string text;
  std::vector<int> ranks;  ///< on both sides of 1 / fraction
};
const std::vector<Case> cases = {{0.5, "0.5", {2, 4}}, {0.25, "0.25", {2, 3, 5, 8}}, {0.1, "0.1", {8, 9, 12}}};

CellRequest plain(const Case& c, int ranks) { return reduction_request(ranks, rows, "topk:fraction=" + c.text + ",index=int32,values=f32", {{"protocol", "gather"}}); }
CellRequest compact(const Case& c, int ranks) { return reduction_request(ranks, rows, "topk:fraction=" + c.text, {{"protocol", "gather"}, {"comm-dtype", "f16"}}); }

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const Case& c : cases)
    for (const int ranks : c.ranks) all.push_back({"fraction " + c.text + ", " + std::to_string(ranks) + " ranks", plain(c, ranks)});
  all.push_back({"f16, compact positions, fraction 0.1, 8 ranks", compact(cases.back(), 8)});
  return all;
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  const auto ratio_of = [&](std::size_t cell) {
    const results::CellRow& row = records[cell].rows.front();
    return static_cast<double>(row.link_bytes) / static_cast<double>(row.baseline_link_bytes);
  };
  Finding f;
  Table table{"all-gather of Top-K over a dense all-reduce, sent per rank", {"fraction", "ranks", "ratio", "fraction x ranks"}, {}};
  double off = 0;
  std::size_t next = 0;
  for (const Case& c : cases) {
    double crossing = no_number, before = no_number;
    int ranks_before = 0;
    for (const int ranks : c.ranks) {
      const double ratio = ratio_of(next++);
      table.rows.push_back({"f32, int32", {c.fraction, static_cast<double>(ranks), ratio, c.fraction * ranks}});
      if (before < 1 && ratio >= 1) crossing = ranks_before + (ranks - ranks_before) * (1 - before) / (ratio - before);
      if (ranks == c.ranks.front() && ratio == 1) crossing = ranks;
      before = ratio, ranks_before = ranks;
    }
    f.measures.push_back({"ranks at which both send as much, fraction " + c.text, crossing, no_number, no_number, 1 / c.fraction, "ranks"});
    off = std::isnan(crossing) ? INFINITY : std::max(off, std::abs(crossing * c.fraction - 1));
  }
  const double compact_ratio = ratio_of(next);
  table.rows.push_back({"f16, compact", {cases.back().fraction, 8, compact_ratio, no_number}});
  f.measures.push_back({"distance of the crossings from 1/f, the largest", off, no_number, no_number, 0.05, "of 1/f", "off"});
  f.measures.push_back({"f16 and compact positions against dense f16, fraction 0.1: ranks at which both send as much", 8 / compact_ratio, no_number, no_number, no_number, "ranks"});
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C24",
     .statement = "Top-k by all-gather loses to a dense all-reduce from N = 1/f ranks on.",
     .provenance = "derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.quantities = {{"off", "number of ranks at which an all-gather of Top-K messages (f32, int32) sends as many bytes as a dense all-reduce in f32, by straight lines between counted numbers of ranks, from 1/f, the largest "
                                                                "distance, of 1/f"}},
                                         .constants = {{"near", 0.05, "of 1/f"}},
                                         .clauses = {{Verdict::confirmed, "off <= near"}},
                                         .otherwise = Verdict::not_reproduced},
                                        requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
