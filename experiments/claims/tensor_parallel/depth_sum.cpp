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

Outcome judge(JudgeContext& context) {
  const results::CellRecord record = context.cells.run_one(check_request("depth", 8, "2.5d:depth=2"));
  const GridShape shape{GridKind::two_and_half_d, {2, 2, 2}};
  const GridCheckSizes n(shape);
  const std::string method = shape.describe();
  const double with = error_of(record, method, "linear", "weight gradient with the sum over the depth"), without = error_of(record, method, "linear", "weight gradient without it");
  const Amount all = received_of(record, method, "linear", "forward and backward with the sum over the depth"), fewer = received_of(record, method, "linear", "forward and backward without it");
  const double q = 2, d = 2, expected = 2 * (d - 1) / d * static_cast<double>(n.in * n.out) / (q * q), extra = static_cast<double>(all.sum - fewer.sum) / word / shape.ranks();
  Outcome o;
  o.measures = {{"relative error of dW without the sum", without, no_number, no_number, wrong, ""},
                {"relative error of dW with the sum", with, no_number, no_number, right, ""},
                {"extra elements received per rank", extra, no_number, no_number, expected, "elements"}};
  o.tables = {{"weight gradient of 2.5-D", {"relative L2", "received per rank (elements)"},
               {{"with the sum over the depth", {with, static_cast<double>(all.sum) / word / shape.ranks()}}, {"without", {without, static_cast<double>(fewer.sum) / word / shape.ranks()}}}}};
  o.verdict = without > wrong && with < right && extra == expected ? Verdict::pass : Verdict::fail;
  char text[700];
  std::snprintf(text, sizeof text, "relative error %.2f without the sum, %.1e with it; it costs %g elements per rank, the formula says %g", without, with, extra, expected);
  o.because = text;
  return o;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C11",
     .statement = "2.5-D tensor parallelism without an all-reduce over the depth gives a wrong weight gradient.",
     .provenance = "derived; read: the released operators have no such all-reduce (ColossalAI parallel_2p5d)",
     .rule = "(q, d) = (2, 2), other rows on each depth layer: PASS iff the relative error of dW is > 0.1 without and < 1e-10 with the sum, which costs 2(d-1)/d S_W/q^2 elements",
     .basis = Basis::exact,
     .from = Profile::quick,
     .judge = judge});

}  // namespace
}  // namespace thinwire::claims
