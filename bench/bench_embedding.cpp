// bench_embedding: synchronising the gradient of a tied token table, which the first and the last stage of every
// replica hold. two_step: all-reduce over the replicas of each stage, then over {first, last}; fused: one
// all-reduce over all of them (the same sum with (2D - 1) / (3D - 2) of the bytes). With tp > 1 each tensor rank holds
// other rows of the table, and there is one such sum per tensor rank; the released form of `fused` makes one of all.
#include "bench/collective/reduction_group.h"
#include "collectives/communicator/process_mesh.h"
#include "core/process/main_guard.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

/// What both schemes reduce over, one group after another.
std::vector<std::unique_ptr<Communicator>> groups_of(const std::string& scheme, Form form, const MeshShape& mesh, Communicator& world) {
  const int rank = world.rank();
  std::vector<std::unique_ptr<Communicator>> steps;
  if (scheme == "two_step") {
    const MeshGroups groups = mesh_groups(mesh);
    steps.push_back(world.split(group_of(groups.dp, rank), rank));
    steps.push_back(world.split(group_of(groups.embedding, rank), rank));
  } else if (scheme == "fused") {
    steps.push_back(world.split(group_of(fused_embedding_groups(mesh, form), rank), rank));
  } else {
    throw UsageError("--scheme " + scheme + ": two_step or fused");
  }
  return steps;
}

void run_group(BenchContext& context, std::span<const Cell> cells) {
  const CellParameters& p = cells.front().parameters;
  const MeshShape mesh{static_cast<int>(p.integer("tp")), 2, static_cast<int>(p.integer("dp")), "tp-dp-pp"};
  check_mesh(mesh);
  const int rank = context.world.rank();
  if (mesh.ranks() != context.world.size())
    throw UsageError("dp " + std::to_string(mesh.dp) + (mesh.tp > 1 ? " with tp " + std::to_string(mesh.tp) : "") + " needs " +
                     std::to_string(mesh.ranks()) + " ranks (first and last stage of each replica) but " +
                     std::to_string(context.world.size()) + " were launched");
  const std::string reference = p.text("reference");
  if (reference != "float64" && reference != "two_step") throw UsageError("--reference " + reference + ": float64 or two_step");
  const TrafficSource source(p);
  const Shape shape{p.integer("rows"), p.integer("hidden")};
  const auto series_of = [&](const MeshCoordinates& c) {
    CaptureQuery query;
    query.traffic = "embedding";
    query.point = p.text("point");
    query.batch = p.integer("batch");
    query.seq = p.integer("seq");
    query.tensor = c.pp == 0 ? "token.first_use" : "token.last_use";
    return source.find(query, mesh.tp * mesh.dp, shape);
  };
  // Each tensor rank's rows are a tensor of their own.
  const auto part_of = [&](const MeshCoordinates& c) { return c.tp * mesh.dp + c.dp; };
  const MeshCoordinates at = mesh_coordinates(mesh, rank);
  const Form form = parse_form(p.text("form"));
  ReductionPlan plan;
  plan.traffic = TrafficClass::embedding;
  plan.operation = p.text("scheme");
  plan.steps = groups_of(plan.operation, form, mesh, context.world);
  plan.released_steps = plan.operation == "fused" && form == Form::released;
  plan.verified = !plan.released_steps || mesh.tp == 1;
  if (reference == "two_step") plan.compared_with = groups_of("two_step", Form::fair, mesh, context.world);
  plan.series = series_of(at);
  plan.part = part_of(at);
  for (int other = 0; other < mesh.ranks(); ++other) {
    const MeshCoordinates c = mesh_coordinates(mesh, other);
    if (c.tp == at.tp) plan.everybody.emplace_back(series_of(c), part_of(c));
  }
  plan.share = at.pp * mesh.dp + at.dp;
  plan.shares = 2 * mesh.dp;
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
    program.options.push_back({"tp", "1", "tensor-parallel ranks, each with rows of its own"});
    program.options.push_back({"reference", "float64", "what errors are against: float64 | two_step (dense, in f32)"});
    const auto shared = grouped_by({"dp", "scheme", "batch", "seq", "rows", "hidden", "point", "comm-dtype", "repetitions", "capture", "input",
                                    "generator", "tp", "reference"});
    // The released form of the fused scheme sums over another group.
    program.group_key = [shared](const CellParameters& p) { return shared(p) + (p.text("scheme") == "fused" ? p.text("form") : ""); };
    program.run_group = run_group;
    return run_bench(count, values, program);
  });
}
