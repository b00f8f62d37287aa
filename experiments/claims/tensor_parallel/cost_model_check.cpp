// tensor_parallel.M1, no claim of a paper but of ours: the cost model predicts how the methods' steps compare on an emulated link.
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/probe.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double bound = 0.15, gbps = 1;
constexpr int batch = 64;

Outcome judge(JudgeContext& context) {
  const std::vector<int> ranks = {4, 8, 16};
  std::vector<CellRequest> requests;
  UnitCell cell;
  cell.batch = batch;
  cell.ranks = 1;
  requests.push_back(unit_request(cell));
  cell.link = emulated_link(gbps);
  for (const int p : ranks) cell.ranks = p, requests.push_back(unit_request(cell));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  const double alone = unit_times(records[0]).front().step_ms();
  Outcome o;
  Table table{"steps of a Transformer layer on an emulated 1 Gbit/s link", {"ranks", "measured (ms)", "model (ms)", "measured / 1-D", "model / 1-D", "distance of the ratio"}, {}};
  double worst = 0;
  std::string farthest;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::vector<UnitTimes> times = unit_times(records[i + 1]);
    for (const UnitTimes& t : times)
      if (!t.untrusted.empty() || !t.skipped.empty()) {
        o.verdict = Verdict::not_decidable;
        o.because = t.method + " was not measured: " + t.untrusted + t.skipped;
        return o;
      }
    double line = no_number, line_model = no_number;
    for (const GridShape& shape : grids_of(ranks[i])) {
      const UnitTimes& t = of_kind(times, shape.kind);
      const double model = model_step_ms(shape, cell, gbps, alone);
      if (shape.kind == GridKind::one_d) line = t.step_ms(), line_model = model;
      const double measured_ratio = t.step_ms() / line, model_ratio = model / line_model, distance = model_ratio / measured_ratio - 1;
      table.rows.push_back({t.method, {static_cast<double>(ranks[i]), t.step_ms(), model, measured_ratio, model_ratio, distance}});
      if (shape.kind == GridKind::one_d) continue;
      o.measures.push_back({"distance of the ratio to 1-D, " + t.method, distance, no_number, no_number, bound, "of the ratio"});
      if (!(std::abs(distance) <= std::abs(worst))) worst = distance, farthest = t.method;
    }
  }
  o.tables = {std::move(table)};
  o.verdict = std::abs(worst) <= bound ? Verdict::pass : Verdict::fail;
  char text[400];
  std::snprintf(text, sizeof text, "%zu methods on 4, 8 and 16 ranks; step-time ratios to 1-D are farthest from the model's at %s: %+.1f %%", o.measures.size(), farthest.c_str(), 100 * worst);
  o.because = text;
  return o;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.M1",
     .statement = "The cost model predicts how steps of 2-D, 2.5-D and 3-D compare with those of 1-D.",
     .provenance = "derived: a check of ours, no claim of a paper",
     .rule = "a Transformer layer at 8 ranks (2-D at 4 and at 16) on the emulated 1 Gbit/s link, timed compute: PASS if every method's step time over that of 1-D is within 15 % of the model's",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .judge = judge});

}  // namespace
}  // namespace thinwire::claims
