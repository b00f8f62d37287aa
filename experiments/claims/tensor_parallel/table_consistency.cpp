// tensor_parallel.C7: whether the average step times that the 3-D paper prints are those of its forward and backward times.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/machine_box.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr double bound = 0.0006;  // three decimals are printed

Finding measure(JudgeContext& context) {
  const Published published = Published::open(context, "tensor_parallel.csv");
  const WeakScaling weak(published);
  Finding found;
  Table table{"average step against forward and backward", {"batch", "average (s)", "(f+b)/batch (s)", "distance (s)"}, {}};
  std::string off;
  double worst = 0;
  int rows = 0;
  for (const std::string& row : weak.rows()) {
    const double distance = std::abs(weak.own_average(row) - weak.average(row));
    found.measures.push_back({row, distance, no_number, no_number, bound, "s"});
    table.rows.push_back({row, {weak.number(row, "batch size"), weak.average(row), weak.own_average(row), distance}});
    worst = std::max(worst, distance);
    if (!(distance <= bound)) off += (off.empty() ? "" : "; ") + row;
    ++rows;
  }
  found.measures.push_back({"largest of all rows", worst, no_number, no_number, bound, "s", "worst"});
  const std::string cube = "3-D, 64 GPUs";
  char text[256];
  std::snprintf(text, sizeof text, "%s %d rows agree; its times give %.4f s where %.3f s is printed, which would take a backward pass of %.1f s instead of %.1f s",
                off.empty() ? "all" : ("all but " + off + " of").c_str(), rows, weak.own_average(cube), weak.average(cube),
                weak.average(cube) * weak.number(cube, "batch size") - weak.number(cube, "forward time"), weak.number(cube, "backward time"));
  found.note = text;
  found.tables.push_back(std::move(table));
  return found;
}

const bool registered = register_claim({.id = "tensor_parallel.C7",
                                        .statement = "The 3-D paper's table of weak scaling is internally consistent.",
                                        .provenance = "read: a picture of the paper's table; that the average is (forward + backward) / batch is second-hand and holds in the other rows",
                                        .basis = Basis::published,
                                        .rule = {.quantities = {{"worst", "|(forward + backward) / batch - average step| of a row, seconds, the largest of the table's nine rows"}},
                                                 .constants = {{"bound", bound, "s: three decimals are printed"}},
                                                 .clauses = {{Verdict::confirmed, "worst <= bound"}},
                                                 .otherwise = Verdict::refuted},
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
