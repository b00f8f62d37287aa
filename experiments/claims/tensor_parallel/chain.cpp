// tensor_parallel.C3: consecutive linears need no other layout and no other messages than their own collectives.
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/probe.h"
#include "models/parallel/tensor/grid_check_cases.h"
#include "models/cost_model/grid_cost.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr std::int64_t word = 8;
constexpr double same = 1e-10, other = 0.1;

Finding measure(JudgeContext& context) {
  const std::vector<int> sides = {2, 3};
  std::vector<CellRequest> requests;
  for (const int q : sides) requests.push_back(check_request("chains", q * q * q, "3d"));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Finding found;
  Table table{"chains of linears", {"q", "linears", "received per rank (elements)", "their collectives (elements)", "outside of them (bytes, all ranks)", "distance in the expected layout",
                                    "distance in the other layout"}, {}};
  std::int64_t outside = 0;
  double worst = 0, control = no_number;
  int chains = 0;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const GridShape shape{GridKind::three_d, {sides[i], sides[i], sides[i]}};
    const GridCheckSizes n(shape);
    for (const GridCheckCase& c : grid_check_cases(shape)) {
      if (c.swapped || c.options.cut != WeightCut::rows) continue;
      for (int length = 1; length <= 4; ++length) {
        ++chains;
        GridCostOptions options;
        options.gather = c.options.gather;
        double formula = 0;
        for (int k = 0; k < length; ++k)
          formula += linear_cost(shape, static_cast<double>(n.rows()), static_cast<double>(n.in), static_cast<double>(n.in), k % 2 == 1, options).step().elements;
        const std::string tensor = "chain of " + std::to_string(length);
        const Amount all = received_of(records[i], c.name(), tensor, "forward and backward");
        const std::int64_t apart = all.sum - word * std::llround(formula * shape.ranks());
        if (std::abs(apart) > std::abs(outside)) outside = apart;
        const double expected = error_of(records[i], c.name(), tensor, length % 2 == 0 ? "output, layout of the input" : "output, layout of the swapped input");
        const double swapped = error_of(records[i], c.name(), tensor, "output, the other layout");
        for (const double e : {expected, error_of(records[i], c.name(), tensor, "input gradient"), error_of(records[i], c.name(), tensor, "weight gradients")})
          if (!(e <= worst)) worst = e;
        control = std::fmin(control, swapped);
        table.rows.push_back({c.name(), {static_cast<double>(sides[i]), static_cast<double>(length), static_cast<double>(all.sum) / word / shape.ranks(), formula, static_cast<double>(apart),
                                         expected, swapped}});
      }
    }
  }
  found.measures = {{"bytes received outside of the linears' collectives", static_cast<double>(outside), no_number, no_number, 0, "bytes", "outside"},
                {"largest relative L2 of outputs, read in the expected layout, and of gradients", worst, no_number, no_number, same, "", "worst"},
                {"smallest relative L2 of outputs read in the other layout (control)", control, no_number, no_number, other, "", "control"}};
  found.tables = {std::move(table)};
  char text[700];
  std::snprintf(text, sizeof text, "%d chains of 1 to 4 linears, forward and backward, three policies: %lld bytes outside of their collectives; outputs lie in the input's layout after an even number, in "
                                   "the swapped one after an odd number (%.1e; in the other layout %.2f and more)", chains, static_cast<long long>(outside), worst, control);
  found.note = text;
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C3",
     .statement = "3-D tensor parallelism needs no new layout between consecutive linears.",
     .provenance = "read: the direction swap of the released code (ColossalAI parallel_3d); derived",
     .basis = Basis::exact,
     .from = Profile::standard,
     .rule = {.settings = {{"q", "2 and 3"}, {"chains", "1 to 4 linears without bias, forward and backward; gathered tensors kept, gathered again once and literally"}},
              .quantities = {{"outside", "bytes received outside of the linears' own collectives (six of each, eight when gathered again, nine literally), all ranks"},
                             {"worst", "largest relative L2 of outputs, read in the input's layout after an even number of linears and in the swapped one after an odd number, and of gradients"},
                             {"control", "smallest relative L2 of outputs read in the other layout: it must be told from the expected one"}},
              .constants = {{"same", same, "relative L2: rounding of float64"}, {"other", other, "relative L2: another layout is no rounding"}},
              .clauses = {{Verdict::invalid, "control <= other"}, {Verdict::pass, "outside == 0 && worst <= same"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
