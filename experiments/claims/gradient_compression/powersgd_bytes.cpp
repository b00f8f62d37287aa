// gradient_compression.C16a: PowerSGD's messages are its two factors: r (p + q) elements in place of p q, counted in sums over ranks.
#include <algorithm>
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/cells/requests.h"
#include "experiments/claims/arms.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

struct Case {
  std::int64_t p, q, rank;
  int ranks;
};
const std::vector<Case> cases = {{768, 3072, 1, 2}, {768, 3072, 2, 2}, {768, 3072, 4, 2}, {768, 768, 1, 2}, {768, 768, 4, 4}};

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const Case& c : cases) {
    const std::string r = std::to_string(c.rank), q = std::to_string(c.q);
    all.push_back({std::to_string(c.p) + " x " + q + ", rank " + r + ", " + std::to_string(c.ranks) + " ranks", reduction_request(c.ranks, c.p, "powersgd:rank=" + r + "+ef", {{"hidden", q}})});
  }
  return all;
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  Table table{"PowerSGD's sum of a gradient, sent per rank", {"p", "q", "rank", "ranks", "counted (bytes)", "formula (bytes)", "dense over it (x)"}, {}};
  double off = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const results::CellRow& row = records[i].rows.front();
    const double ranks = c.ranks, formula = 2 * (ranks - 1) / ranks * 4 * static_cast<double>(c.rank * (c.p + c.q)), counted = static_cast<double>(row.link_bytes);
    off = std::max(off, std::abs(counted - formula));
    table.rows.push_back({"", {static_cast<double>(c.p), static_cast<double>(c.q), static_cast<double>(c.rank), ranks, counted, formula, static_cast<double>(row.baseline_link_bytes) / counted}});
  }
  Finding f;
  f.measures = {{"counted bytes of a rank from 8 r (p + q) (N - 1)/N, the largest distance", off, no_number, no_number, 0, "bytes", "off"},
                {"768 x 3072, rank 1: dense over PowerSGD", table.rows.front().values.back(), no_number, no_number, 614.4, "x"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C16a",
     .statement = "PowerSGD sends r(p+q) elements per matrix: counted.",
     .provenance = "derived (bytes)",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.quantities = {{"off", "bytes that a rank sends in a sum of a p x q matrix in f32, counted, less 8 r (p + q) (N - 1)/N, the largest distance"}},
                                         .clauses = {{Verdict::pass, "off == 0"}},
                                         .otherwise = Verdict::fail},
                                        requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
