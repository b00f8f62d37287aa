// check_tensor_parallel: the layers of 2-D, 2.5-D and 3-D tensor parallelism held against a float64 reference, with the bytes that really
// travelled and the elements that each rank stores (docs/tensor-parallel.md). Numbers only: who asks judges them.
#include "bench/tensor_parallel/grid_checks.h"
#include "bench/collective/scatter_check.h"
#include "collectives/link/counting_communicator.h"
#include "collectives/link/emulated_network.h"
#include "core/process/main_guard.h"

using namespace thinwire;
using namespace thinwire::bench;

namespace {

void run_cell(BenchContext& context, const Cell& cell) {
  const CellParameters& p = cell.parameters;
  const std::string what = p.text("what"), mode = p.text("mode");
  const auto seed = static_cast<std::uint64_t>(p.integer("seed"));
  if (context.link != "shm") throw UsageError("--link " + context.link + ": check_tensor_parallel counts messages and times nothing; leave --link out");
  // Over an emulated network every collective is made of messages, so that counting messages counts all. Its rate is of no interest.
  const auto count = std::make_shared<LinkBytes>();
  const auto counted = make_emulated_communicator(make_counting_communicator(context.world.duplicate(), count), EmulatedLink{1e6, 0});
  const CountedWorld world{*counted, *count, seed};
  Measured measured;
  CheckRows rows(*counted, measured);
  rows.common.cell_id = cell.cell_id;
  rows.common.seed = p.integer("seed");
  rows.common.source = "generated";
  if (what == "scatter") {
    rows.common.method = "line of " + std::to_string(counted->size());
    check_scatter(*counted, p.text("codec"), {}, seed, rows);
    return context.finish(cell, std::move(measured));
  }
  const std::vector<GridShape> shapes = mode == "all" ? grids_of(counted->size()) : std::vector{parse_grid(mode, counted->size())};
  bool found = false;
  for (const GridShape& shape : shapes) {
    rows.common.tp = shape.ranks();
    const bool line = shape.kind == GridKind::one_d, deep = shape.kind == GridKind::two_and_half_d;
    if (what == "linears" && line)
      check_line_pair(world, rows), found = true;
    else if (what == "linears")
      check_linears(world, shape, rows), found = true;
    else if (what == "layers" && !line)
      check_layers(world, shape, rows), found = true;
    else if (what == "chains" && !line)
      check_chains(world, shape, rows), found = true;
    else if (what == "depth" && deep)
      check_depth_sum(world, shape, rows), found = true;
    else if (what != "layers" && what != "chains" && what != "depth")
      throw UsageError("--what " + what + ": linears, layers, chains, depth or scatter");
  }
  if (!found) throw UsageError("--what " + what + " --mode " + mode + " has nothing to check on " + std::to_string(counted->size()) + " ranks" + (what == "depth" ? "; it needs a 2.5-D grid" : "; it needs a 2-D, 2.5-D or 3-D grid"));
  context.finish(cell, std::move(measured));
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "check_tensor_parallel";
    program.summary = "layers on 1-D, 2-D, 2.5-D and 3-D grids against float64: errors, bytes received, elements stored";
    program.has_timing_options = false;
    program.options = {{"what", "linears", "linears | layers (bias, norm, embedding, head, loss) | chains (of 1 to 4 linears) | depth (the sum of 2.5-D) | scatter (of coded weight gradients)"},
                       {"mode", "all", "1d | 2d | 2.5d:depth=D | 3d | 3d:sides=XxYxZ; all: every grid that the ranks make"},
                       {"codec", "quantize:bits=8", "what codes the partial gradients (scatter)"}};
    program.run_group = [](BenchContext& context, std::span<const Cell> cells) {
      for (const Cell& cell : cells) {
        context.start(cell);
        guarded(context, cell, [&] { run_cell(context, cell); });
      }
    };
    return run_bench(count, values, program);
  });
}
