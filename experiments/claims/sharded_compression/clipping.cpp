// sharded_compression.C22: the norm by which gradients are clipped counts each element once. Blocks of rows are not padded, so there is no padding that could be filled
// with NaN; in its place rows that W does not divide, clipped, in float64 against one device. And a coded gradient's norm: an error without bias that knows nothing of
// the gradient makes it sqrt(1 + error^2) times as large; the control, nearest codes of two bits, has a bias.
#include <algorithm>
#include <cmath>

#include "experiments/claims/sharded_compression/cells/messages.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

const std::vector<std::string> unbiased = {"group:bits=4,round=stochastic", "group:bits=3,round=stochastic", "group:bits=2,round=stochastic", "group:bits=4,round=stochastic+hadamard:block=32"};
constexpr const char* biased = "group:bits=2";

CellRequest uneven(int ranks, int zero_stage) {
  return training(ranks, {{"zero-stage", std::to_string(zero_stage)}, {"dtype", "f64"}, {"steps", "6"}, {"global-batch", "6"}, {"clip", "0.5"}});
}

std::vector<NamedRequest> all_arms() {
  std::vector<NamedRequest> arms = {{"one device", uneven(1, 0)}};
  for (const int zero_stage : {1, 2, 3}) arms.push_back({"ZeRO-" + std::to_string(zero_stage) + ", 3 ranks", uneven(3, zero_stage)});
  return arms;
}

/// Of the sum of four ranks' normal gradients, coded on its way to the owners.
struct Norms {
  double ratio = 0;     ///< to the norm of the exact sum
  double expected = 0;  ///< sqrt(1 + error^2)
  double off() const { return std::abs(ratio / expected - 1); }
};
Norms norms(const std::vector<Values>& gradients, const std::string& codec) {
  const std::vector<double> exact = exact_sum(gradients);
  const Values arrived = two_level_sum(gradients, {"none", codec, static_cast<int>(gradients.size()), 1});
  double squares = 0, all = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) squares += double{arrived[i]} * arrived[i], all += exact[i] * exact[i];
  return {std::sqrt(squares / all), std::hypot(1, relative_error(arrived, exact))};
}

Finding measure(JudgeContext& context, const Rule& rule) {
  std::vector<CellRequest> requests;
  for (const NamedRequest& arm : all_arms()) requests.push_back(arm.request);
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  double farthest = 0, off = 0, clipped = INFINITY;
  for (std::size_t i = 1; i < records.size(); ++i) farthest = std::max(farthest, distance(records[i], records[0]));
  for (const results::TrainingCurveRow& row : records[0].training.curve) clipped = std::min(clipped, row.grad_norm);
  std::vector<Values> gradients;
  for (int r = 0; r < 4; ++r) gradients.push_back(normal_values(1 << 17, "rank " + std::to_string(r)));
  Table table{"norm of a coded gradient", {"over the uncoded norm", "sqrt(1 + error^2)"}, {}};
  const auto add = [&](const std::string& codec) {
    const Norms n = norms(gradients, codec);
    table.rows.push_back({codec, {n.ratio, n.expected}});
    return n.off();
  };
  for (const std::string& codec : unbiased) off = std::max(off, add(codec));
  const double control = add(biased);
  Finding found;
  found.measures = {{"rows that 3 ranks do not divide: largest relative difference from one device", farthest, no_number, no_number, rule.constant("bound"), "", "farthest"},
                    {"control: norm before clipping, least step", clipped, no_number, no_number, rule.constant("clip"), "", "clipped"},
                    {"|coded norm / uncoded norm / sqrt(1 + error^2) - 1|, most", off, no_number, no_number, rule.constant("share"), "", "off"},
                    {"control: the same of nearest codes of two bits", control, no_number, no_number, rule.constant("share"), "", "control"}};
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  const Rule rule = with_arms({.settings = {{"coded sums", "4 ranks, normal numbers: " + unbiased[0] + ", 3 and 2 bits, with H of 32; control " + biased}},
                               .quantities = {{"farthest", "largest relative difference of a step's loss, gradient norm or validation loss from one device's, float64, rows that the ranks do not divide"},
                                              {"clipped", "gradient norm before clipping, the least of the steps"},
                                              {"off", "|norm of a coded sum over that of the exact one, over sqrt(1 + error^2), - 1|, the most; error: relative L2"},
                                              {"control", "the same of codes with a bias"}},
                               .constants = {{"bound", 1e-10, "relative: rounding of float64"}, {"clip", 0.5, "norm: below it nothing would be clipped"}, {"share", 0.01, "of the norm"}},
                               .clauses = {{Verdict::invalid, "control <= share || clipped <= clip"}, {Verdict::pass, "farthest <= bound && off <= share"}},
                               .otherwise = Verdict::fail},
                              all_arms());
  return {.id = "sharded_compression.C22",
          .statement = "Clipping sees each element once.",
          .provenance = "derived",
          .basis = Basis::exact,
          .from = Profile::quick,
          .rule = rule,
          .measure = [rule](JudgeContext& context) { return measure(context, rule); },
          .past = {{"2026-11-23", "the coded norm is that of sums of normal numbers, no longer of a training's first step", "what a training's coded gradients lose is not recorded: it could not be judged"}}};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
