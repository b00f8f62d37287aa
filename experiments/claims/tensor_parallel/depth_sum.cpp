// tensor_parallel.C11: 2.5-D needs the sum over the depth. Without it, as in the released code, every layer's gradient is that of its own rows.
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/probe.h"
#include "models/parallel/tensor/grid_check_cases.h"
#include "models/cost_model/grid_cost.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double wrong = 0.1, right = 1e-10;
constexpr std::int64_t word = 8;

Finding measure(JudgeContext& context) {
  const results::CellRecord record = context.cells.run_one(check_request("depth", 8, "2.5d:depth=2"));
  const GridShape shape{GridKind::two_and_half_d, {2, 2, 2}};
  const GridCheckSizes n(shape);
  const std::string method = shape.describe();
  const double with = error_of(record, method, "linear", "weight gradient with the sum over the depth"), without = error_of(record, method, "linear", "weight gradient without it");
  const Amount all = received_of(record, method, "linear", "forward and backward with the sum over the depth"), fewer = received_of(record, method, "linear", "forward and backward without it");
  const double q = 2, d = 2, expected = 2 * (d - 1) / d * static_cast<double>(n.in * n.out) / (q * q), extra = static_cast<double>(all.sum - fewer.sum) / word / shape.ranks();
  Finding found;
  found.measures = {{"relative error of dW without the sum", without, no_number, no_number, wrong, "", "without"},
                {"relative error of dW with the sum", with, no_number, no_number, right, "", "with"},
                {"extra elements received per rank", extra, no_number, no_number, expected, "elements", "extra"},
                {"the same by the formula", expected, no_number, no_number, no_number, "elements", "expected"}};
  found.tables = {{"weight gradient of 2.5-D", {"relative L2", "received per rank (elements)"},
               {{"with the sum over the depth", {with, static_cast<double>(all.sum) / word / shape.ranks()}}, {"without", {without, static_cast<double>(fewer.sum) / word / shape.ranks()}}}}};
  char text[700];
  std::snprintf(text, sizeof text, "relative error %.2f without the sum, %.1e with it; it costs %g elements per rank, the formula says %g", without, with, extra, expected);
  found.note = text;
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C11",
     .statement = "2.5-D tensor parallelism without an all-reduce over the depth gives a wrong weight gradient.",
     .provenance = "derived; read: the released operators have no such all-reduce (ColossalAI parallel_2p5d)",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"(q, d)", "(2, 2)"}, {"rows", "others on each depth layer"}},
              .quantities = {{"without", "relative L2 error of dW without the sum over the depth"},
                             {"with", "the same with the sum"},
                             {"extra", "elements that a rank receives more with the sum"},
                             {"expected", "2 (d - 1)/d S_W/q^2 elements"}},
              .constants = {{"wrong", wrong, "relative L2: no rounding"}, {"right", right, "relative L2: rounding of float64"}},
              .clauses = {{Verdict::pass, "without > wrong && with < right && extra == expected"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
