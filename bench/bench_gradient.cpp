// bench_gradient: weight gradients summed over data-parallel replicas, to all or each row to its owner, and weights gathered from the
// owners of their rows; per matrix, codec and protocol. Scatters and gathers also in two steps, inside nodes and across, as ZeRO++ exchanges gradients.
#include <algorithm>

#include "bench/collective/reduction_group.h"
#include "collectives/link/link_calibration.h"
#include "core/process/main_guard.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

/// What data parallelism does with a matrix, and the class whose captured tensors it is measured on.
struct DataParallel {
  std::string_view operation;
  TrafficClass traffic;
  const char* captured;
};
constexpr DataParallel operations[] = {{"all_reduce", TrafficClass::dp_gradient, "dp_gradient"},
                                       {"reduce_scatter", TrafficClass::grad_reduce_scatter, "dp_gradient"},
                                       {"all_gather", TrafficClass::param_all_gather, "param_all_gather"}};

void run_group(BenchContext& context, std::span<const Cell> cells) {
  const CellParameters& p = cells.front().parameters;
  const int dp = static_cast<int>(p.integer("dp"));
  if (dp != context.world.size())
    throw UsageError("dp " + std::to_string(dp) + " needs that many ranks but " + std::to_string(context.world.size()) + " were launched");
  const TrafficSource source(p);
  const std::string name = p.text("operation");
  const auto operation = std::ranges::find(operations, name, &DataParallel::operation);
  if (operation == std::end(operations)) throw UsageError("--operation " + name + ": all_reduce, reduce_scatter or all_gather");
  CaptureQuery query;
  query.traffic = operation->captured;
  query.point = p.text("point");
  query.batch = p.integer("batch");
  query.seq = p.integer("seq");
  query.tensor = p.text("tensor");
  if (query.tensor.empty()) query.tensor = source.names(query).empty() ? "" : source.names(query).front();
  const Shape shape{p.integer("rows"), p.integer("hidden")};
  const MeshShape mesh{.dp = dp, .dp_nodes = static_cast<int>(p.integer("dp-nodes"))};
  check_mesh(mesh);
  ReductionPlan plan;
  plan.axis = mesh.data();
  plan.under_way = static_cast<int>(p.integer("under-way"));
  const bool two_levels = RowOwners{plan.axis, {}}.two_levels();
  if (mesh.dp_nodes > 1 && (!two_levels || name == "all_reduce"))
    throw UsageError("--dp-nodes " + std::to_string(mesh.dp_nodes) + " of --dp " + std::to_string(dp) + ": two steps are for reduce_scatter and all_gather, in nodes of several ranks; give --operation reduce_scatter and a --dp that leaves each node more than one");
  if (plan.under_way < 1 || (plan.under_way > 1 && (!two_levels || token_bucket_bytes(context.link) > 0)))
    throw UsageError("--under-way " + std::to_string(plan.under_way) + ": several matrices at once are for exchanges in two steps (--dp-nodes), over links without a token bucket (emulated:RATE or shm); give 1");
  plan.operation = name;
  plan.overlap_blocks = p.flag("overlap");
  plan.traffic = operation->traffic;
  plan.steps.push_back(context.world.duplicate());
  const bool gathered = plan.traffic == TrafficClass::param_all_gather;  // one matrix, of which each rank owns rows
  const int parts = gathered ? 1 : dp;
  plan.series = source.find(query, parts, shape);
  plan.part = gathered ? 0 : context.world.rank();
  for (int part = 0; part < parts; ++part) plan.everybody.emplace_back(source.find(query, parts, shape), part);
  ReductionGroup(context, p, std::move(plan)).run(cells);
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "bench_gradient";
    program.summary = "codecs and protocols on what data-parallel replicas exchange: weight gradients, and the weights themselves where they are sharded";
    program.options = reduction_options();
    program.options.push_back({"overlap", "true", "of a reduce_scatter by rounds of row blocks: a block is encoded while the one before it travels, round our ring | false"});
    program.options.push_back({"dp-nodes", "1", "of a reduce_scatter or all_gather: nodes, each of dp / dp-nodes ranks; two steps, inside a node and across"});
    program.options.push_back({"codec-inside", "none", "codec of what stays inside a node; --codec is then for what crosses"});
    program.options.push_back({"under-way", "1", "with nodes: matrices at once, so that one is coded while another travels"});
    program.options.push_back({"operation", "all_reduce", "all_reduce | reduce_scatter (gradients of sharded data parallelism) | all_gather (its weights)"});
    program.group_key = grouped_by({"dp", "tensor", "batch", "seq", "rows", "hidden", "point", "comm-dtype", "operation", "dp-nodes", "under-way", "repetitions", "capture", "input", "generator"});
    program.run_group = run_group;
    return run_bench(count, values, program);
  });
}
