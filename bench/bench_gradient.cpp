// bench_gradient: sums of weight gradients over data-parallel replicas, per matrix, codec and protocol.
#include "bench/collective/reduction_group.h"
#include "core/process/main_guard.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

void run_group(BenchContext& context, std::span<const Cell> cells) {
  const CellParameters& p = cells.front().parameters;
  const int dp = static_cast<int>(p.integer("dp"));
  if (dp != context.world.size())
    throw UsageError("dp " + std::to_string(dp) + " needs that many ranks but " + std::to_string(context.world.size()) + " were launched");
  const TrafficSource source(p);
  CaptureQuery query;
  query.traffic = "dp_gradient";
  query.point = p.text("point");
  query.batch = p.integer("batch");
  query.seq = p.integer("seq");
  query.tensor = p.text("tensor");
  if (query.tensor.empty()) query.tensor = source.names(query).empty() ? "" : source.names(query).front();
  const Shape shape{p.integer("rows"), p.integer("hidden")};
  ReductionPlan plan;
  plan.operation = p.text("operation");
  if (plan.operation != "all_reduce" && plan.operation != "reduce_scatter")
    throw UsageError("--operation " + plan.operation + ": all_reduce or reduce_scatter");
  plan.traffic = plan.operation == "reduce_scatter" ? TrafficClass::grad_reduce_scatter : TrafficClass::dp_gradient;
  plan.steps.push_back(context.world.duplicate());
  plan.series = source.find(query, dp, shape);
  plan.part = context.world.rank();
  for (int part = 0; part < dp; ++part) plan.everybody.emplace_back(source.find(query, dp, shape), part);
  ReductionGroup(context, p, std::move(plan)).run(cells);
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "bench_gradient";
    program.summary = "codecs and protocols on weight gradients of data-parallel replicas";
    program.options = reduction_options();
    program.options.push_back({"operation", "all_reduce", "all_reduce | reduce_scatter (sharded data parallelism)"});
    program.group_key = grouped_by({"dp", "tensor", "batch", "seq", "rows", "hidden", "point", "comm-dtype", "operation", "repetitions", "capture", "input", "generator"});
    program.run_group = run_group;
    return run_bench(count, values, program);
  });
}
