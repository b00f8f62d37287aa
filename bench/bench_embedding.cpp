// bench_embedding: synchronising the gradient of a tied token table, which the first and the last stage of every
// replica hold. two_step: all-reduce over the replicas of each stage, then over {first, last}; fused: one
// all-reduce over all of them (the same sum with (2D - 1) / (3D - 2) of the bytes).
#include "bench/common/reduction_group.h"
#include "core/main_guard.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

void run_group(BenchContext& context, std::span<const Cell> cells) {
  const CellParameters& p = cells.front().parameters;
  const int dp = static_cast<int>(p.integer("dp"));
  const int rank = context.world.rank();
  if (2 * dp != context.world.size())
    throw UsageError("dp " + std::to_string(dp) + " needs " + std::to_string(2 * dp) + " ranks (first and last stage of each replica) but " +
                     std::to_string(context.world.size()) + " were launched");
  const std::string scheme = p.text("scheme");
  const TrafficSource source(p);
  const Shape shape{p.integer("rows"), p.integer("hidden")};
  const auto series_of = [&](int of_rank) {
    CaptureQuery query;
    query.traffic = "embedding";
    query.point = p.text("point");
    query.batch = p.integer("batch");
    query.seq = p.integer("seq");
    query.tensor = of_rank < dp ? "token.first_use" : "token.last_use";
    return source.find(query, dp, shape);
  };
  ReductionPlan plan;
  plan.traffic = TrafficClass::embedding;
  plan.operation = scheme;
  if (scheme == "two_step") {
    plan.steps.push_back(context.world.split(rank / dp, rank));
    plan.steps.push_back(context.world.split(rank % dp, rank));
  } else if (scheme == "fused") {
    plan.steps.push_back(context.world.duplicate());
  } else {
    throw UsageError("--scheme " + scheme + ": two_step or fused");
  }
  plan.series = series_of(rank);
  plan.part = rank % dp;
  for (int other = 0; other < 2 * dp; ++other) plan.everybody.emplace_back(series_of(other), other % dp);
  ReductionGroup(context, p, std::move(plan)).run(cells);
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "bench_embedding";
    program.summary = "tied-embedding gradients: two steps against one fused reduction, dense and compressed";
    program.options = reduction_options();
    program.options.push_back({"scheme", "two_step", "two_step | fused"});
    program.group_key = grouped_by({"dp", "scheme", "batch", "seq", "rows", "hidden", "point", "wire", "repetitions", "capture", "input", "generator"});
    program.run_group = run_group;
    return run_bench(count, values, program);
  });
}
