// sharded_compression.C25: torchft's int8 all-reduce (docs/papers/sharded_compression.md, "Defects of the released code" 6): codes are cast, which cuts off what stands
// behind the point, and the owner's sum is coded once more. Here codes are rounded and a reduce-scatter keeps the f32 sum.
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/sharded_compression/cells/messages.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr std::size_t ranks = 4, rows = 64, row = 2048;
constexpr const char* rounding = "group:bits=8,group=2048";

/// As released: of each row, code = x * (127 / largest) cut off, decoded = code / (127 / largest).
Values truncated(const Values& x) {
  Values out(x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += row) {
    float largest = 0;
    for (std::size_t i = begin; i < begin + row; ++i) largest = std::max(largest, std::abs(x[i]));
    const float multiplier = 127 / largest;
    for (std::size_t i = begin; i < begin + row; ++i) out[i] = std::trunc(x[i] * multiplier) / multiplier;
  }
  return out;
}

struct Result {
  Values mean, coded_again;
};
template <typename Through>
Result averaged(const std::vector<Values>& gradients, Through through) {
  Result result{Values(rows * row, 0), {}};
  for (const Values& gradient : gradients) {
    const Values arrived = through(gradient);
    for (std::size_t i = 0; i < arrived.size(); ++i) result.mean[i] += arrived[i] / ranks;
  }
  result.coded_again = through(result.mean);
  return result;
}

Finding measure(JudgeContext&) {
  std::vector<Values> gradients;
  for (std::size_t r = 0; r < ranks; ++r) gradients.push_back(normal_values(rows * row, "rank " + std::to_string(r)));
  std::vector<double> exact = exact_sum(gradients);
  for (double& v : exact) v /= ranks;
  Wire wire(rounding);
  const Result cut = averaged(gradients, truncated), rounded = averaged(gradients, [&](const Values& x) { return wire.arrives(x, {}, rows); });
  const double cut_slope = slope(cut.coded_again, exact), round_slope = slope(rounded.coded_again, exact);
  const double once = relative_error(rounded.mean, exact), twice = relative_error(rounded.coded_again, exact);
  Finding found;
  found.measures = {{"slope against the true mean, cut off twice", cut_slope, no_number, no_number, 0.977, "", "cut"},
                    {"slope against the true mean, rounded twice", round_slope, no_number, no_number, 1, "", "rounded"},
                    {"error of the f32 sum over that of the sum coded again", once / twice, no_number, no_number, 1 / 1.41, "ratio", "kept"}};
  found.tables = {{"mean over ranks", {"slope", "relative error"},
                   {{"cut off, f32 sum", {slope(cut.mean, exact), relative_error(cut.mean, exact)}},
                    {"cut off, coded again", {cut_slope, relative_error(cut.coded_again, exact)}},
                    {"rounded, f32 sum", {slope(rounded.mean, exact), once}},
                    {"rounded, coded again", {round_slope, twice}}}}};
  return found;
}

const bool registered = register_claim(
    {.id = "sharded_compression.C25",
     .statement = "torchft's int8 path shrinks gradients.",
     .provenance = "read: torchft's code; derived (slope)",
     .basis = Basis::exact,
     .rule = {.settings = {{"ranks", std::to_string(ranks)}, {"numbers", std::to_string(rows) + " rows of " + std::to_string(row) + ", normal, independent on every rank"}, {"rounded", rounding}},
              .quantities = {{"cut", "<result, true mean> / <true mean, true mean>, codes cut off, the mean coded once more"},
                             {"rounded", "the same with codes rounded"},
                             {"kept", "relative L2 error of the f32 mean of rounded codes over that of the mean coded once more"}},
              .constants = {{"page", 0.977, "slope"}, {"page_band", 0.003, "slope"}, {"one", 1, "slope"}, {"one_band", 0.001, "slope"}, {"root", 1.41, "sqrt 2"}, {"share", 0.03, "of it"}},
              .clauses = {{Verdict::pass, "abs(cut - page) <= page_band && abs(rounded - one) <= one_band && abs(kept * root - one) <= share"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
