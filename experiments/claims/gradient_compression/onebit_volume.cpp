// gradient_compression.C20a: how much less 1-bit Adam sends over a run whose first part w is Adam's, against a dense sum in f16: 1/(w + (1 - w)/16).
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/cells/requests.h"
#include "experiments/claims/arms.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr int ranks = 2, steps = 20;
const std::vector<int> warm_ups = {3, 5};  ///< of 20 steps: 0.15, 0.25

double expected(double warm_up, double gain) { return 1 / (warm_up + (1 - warm_up) / gain); }

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const int freeze : warm_ups)
    all.push_back({"frozen after " + std::to_string(freeze) + " steps",
                   training_request(ranks, steps, {{"hidden", "256"}, {"comm-dtype", "f16"}, {"optimizer", "onebit_adam:freeze=" + std::to_string(freeze)}, {"compress.optimizer", "sign:scale=l2+ef"},
                                                   {"compress.optimizer.protocol", "two_shot"}})});
  return all;
}

/// Bytes of gradients and of momentum.
std::int64_t volume(const results::CellRecord& record, std::int64_t step) { return sent(record, "dp_gradient", Share::all, step) + sent(record, "optimizer", Share::all, step); }

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  Finding f;
  Table table{"bytes over a run of 20 steps", {"warm-up", "Adam in f16 (bytes)", "1-bit Adam (bytes)", "ratio", "1/(w + (1 - w)/16)", "ratio of a compressed step", "dense share of a compressed step"}, {}};
  double off = 0;
  for (std::size_t i = 0; i < warm_ups.size(); ++i) {
    const results::CellRecord& record = records[i];
    std::int64_t coded = 0;
    for (int step = 0; step < steps; ++step) coded += volume(record, step);
    // Steps before the freeze are Adam's.
    const auto dense_step = static_cast<double>(volume(record, 0)), last = static_cast<double>(volume(record, steps - 1));
    const double dense = steps * dense_step, w = static_cast<double>(warm_ups[i]) / steps, ratio = dense / static_cast<double>(coded), formula = expected(w, 16);
    off = std::max(off, std::abs(ratio / formula - 1));
    const auto plain = static_cast<double>(sent(record, "optimizer", Share::dense, steps - 1));
    table.rows.push_back({"", {w, dense, static_cast<double>(coded), ratio, formula, dense_step / last, plain / last}});
    char name[60];
    std::snprintf(name, sizeof name, "dense over 1-bit Adam's bytes, w = %.2f", w);
    f.measures.push_back({name, ratio, no_number, no_number, formula, "x"});
  }
  f.measures.push_back({"distance from 1/(w + (1 - w)/16), the largest", off, no_number, no_number, 0.05, "of it", "off"});
  f.tables = {std::move(table)};
  f.note = "vectors travel in f16 throughout";
  return f;
}

const bool counted = register_claim(
    {.id = "gradient_compression.C20a",
     .statement = "1-bit Adam sends a fifth at 15 % warm-up: counted.",
     .provenance = "read: DeepSpeed's blog; derived (formula)",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms({.quantities = {{"off", "bytes of gradients and momentum of 20 steps of Adam in f16 over those of 1-bit Adam, against 1/(w + (1 - w)/16), which is 4.92 and 3.37, the larger distance of w = 0.15 and 0.25"}},
                                         .constants = {{"near", 0.05, "of the formula"}},
                                         .clauses = {{Verdict::confirmed, "off <= near"}},
                                         .otherwise = Verdict::not_reproduced},
                                        requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
