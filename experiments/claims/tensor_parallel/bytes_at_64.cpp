// tensor_parallel.C5b: bytes per rank and sequence at 64 ranks, counted, for the paper's shapes with h and s divided by 32.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/arms.h"
#include "experiments/claims/tensor_parallel/cells/machine_box.h"
#include "experiments/claims/tensor_parallel/cells/probe.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr int ranks = 64, heads = 64, divided = 32;  ///< hidden size and sequence are the paper's over `divided`
constexpr double bytes_per_element = 4;

struct Arm {
  std::string name, mode, gather, row;  ///< the row of the table that gives its batch
};
const std::vector<Arm> arms = {{"1-D", "1d", "again", "1-D, 64 GPUs"}, {"2-D", "2d", "again", "2-D, 64 GPUs"}, {"3-D, kept", "3d", "keep", "3-D, 64 GPUs"},
                               {"3-D, gathered again once", "3d", "again", "3-D, 64 GPUs"}, {"3-D, gathered again literally", "3d", "again-literally", "3-D, 64 GPUs"}};
const std::vector<int> sequences = {512 / divided, 1024 / divided};

std::vector<RuleArm> rule_arms() {
  std::vector<RuleArm> all;
  for (const Arm& arm : arms) all.push_back({arm.name, {{"mode", arm.mode}, {"gather", arm.gather}}});
  return all;
}

Finding measure(JudgeContext& context) {
  const Published published = Published::open(context, "tensor_parallel.csv");
  const WeakScaling weak(published);
  struct Run {
    std::string mode, gather;
    int batch;
  };
  std::vector<Run> runs;
  for (const Arm& arm : arms) runs.push_back({arm.mode, arm.gather, static_cast<int>(weak.run(arm.row).batch)});
  const int hidden = static_cast<int>(weak.run(arms.front().row).hidden) / divided;
  std::vector<CellRequest> requests;
  for (const int seq : sequences)
    for (const Run& run : runs) {
      UnitCell cell;
      cell.ranks = ranks, cell.mode = run.mode, cell.gather = run.gather, cell.batch = run.batch, cell.seq = seq, cell.hidden = hidden, cell.heads = heads, cell.repetitions = 1;
      requests.push_back(unit_request(cell)), requests.back().timed = false;
      requests.back().timeout = 600;
    }
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Finding found;
  Table table{"64 ranks: elements received per rank, sequence and layer", {"sequence", "forward", "backward", "step", "step with recomputation", "over 2-D", "over 2-D with recomputation"}, {}};
  double thinnest = 0, closest_1d = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    double step[5][2];
    for (std::size_t k = 0; k < runs.size(); ++k) {
      const UnitTimes t = unit_times(records[i * runs.size() + k]).front();
      const double forward = t.forward_bytes / bytes_per_element / runs[k].batch, backward = t.backward_bytes / bytes_per_element / runs[k].batch;
      step[k][0] = forward + backward, step[k][1] = 2 * forward + backward;
      // Row 1 is 2-D; its own quotients are 1, those of 1-D are there once 2-D is known.
      table.rows.push_back({t.method + ", batch " + std::to_string(runs[k].batch) + ", s = " + std::to_string(divided * sequences[i]) + "/" + std::to_string(divided),
                            {static_cast<double>(sequences[i]), forward, backward, step[k][0], step[k][1], no_number, no_number}});
    }
    for (std::size_t k = 0; k < runs.size(); ++k)
      for (int r = 0; r < 2; ++r) table.rows[i * runs.size() + k].values[static_cast<std::size_t>(5 + r)] = step[k][r] / step[1][r];
    for (int r = 0; r < 2; ++r) {
      closest_1d = std::max(closest_1d, step[1][r] / step[0][r]);
      for (std::size_t k = 2; k < runs.size(); ++k) thinnest = std::max(thinnest, step[k][r] / step[1][r]);
    }
  }
  found.measures = {{"largest 3-D / 2-D", thinnest, no_number, no_number, 1 - fewer, "ratio", "cube"}, {"largest 2-D / 1-D", closest_1d, no_number, no_number, 1 - fewer, "ratio", "square"}};
  found.tables = {std::move(table)};
  char text[400];
  std::snprintf(text, sizeof text, "counted on 64 ranks at the paper's batches (%d, %d, %d), keep, gathered again once and literally, with and without recomputation: 3-D / 2-D at most %.3f, 2-D / 1-D at most %.3f",
                runs[0].batch, runs[1].batch, runs[2].batch, thinnest, closest_1d);
  found.note = text;
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C5b",
     .statement = "At 64 ranks 3-D sends fewer bytes per rank than 2-D, and 2-D fewer than 1-D: counted.",
     .provenance = "read: abstract page of 2105.14450 (less communication than 1-D and 2-D), batches and h from its table; s derived (512 and 1024)",
     .basis = Basis::exact,
     .from = Profile::standard,
     .rule = order_rule({{"program", "bench_tensor_parallel"}, {"unit", "layer"}, {"ranks", "64, oversubscribed"}, {"batch and hidden size", "of the 64-GPU rows of the 3-D paper's table of weak scaling, hidden size over 32"},
                           {"seq", "512/32 and 1024/32"}, {"heads", std::to_string(heads)}}, rule_arms(),
                        "counted elements that a rank receives per sequence under 3-D over those under 2-D, the largest of all policies and sequences, with and without recomputation"),
     .measure = measure,
     .past = {order_was_thin()},
     .figure = "tensor_parallel_bytes"});

}  // namespace
}  // namespace thinwire::claims
