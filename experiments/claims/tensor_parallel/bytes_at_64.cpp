// tensor_parallel.C5b: bytes per rank and sequence at 64 ranks, counted, for the paper's shapes with h and s divided by 32.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/probe.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr int ranks = 64, hidden = 8192 / 32, heads = 64;
constexpr int batch_1d = 30, batch_grid = 384;
constexpr double thin = 0.9, bytes_per_element = 4;

Outcome judge(JudgeContext& context) {
  struct Run {
    std::string mode, gather;
    int batch;
  };
  const std::vector<Run> runs = {{"1d", "again", batch_1d}, {"2d", "again", batch_grid}, {"3d", "keep", batch_grid}, {"3d", "again", batch_grid}, {"3d", "again-literally", batch_grid}};
  const std::vector<int> sequences = {512 / 32, 1024 / 32};
  std::vector<CellRequest> requests;
  for (const int seq : sequences)
    for (const Run& run : runs) {
      UnitCell cell;
      cell.ranks = ranks, cell.mode = run.mode, cell.gather = run.gather, cell.batch = run.batch, cell.seq = seq, cell.hidden = hidden, cell.heads = heads, cell.repetitions = 1;
      requests.push_back(unit_request(cell));
      requests.back().timeout = 600;
    }
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Outcome o;
  Table table{"64 ranks: elements received per rank, sequence and layer", {"sequence", "forward", "backward", "step", "step with recomputation", "over 2-D", "over 2-D with recomputation"}, {}};
  bool strict = true;
  double thinnest = 0, closest_1d = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    double step[5][2];
    for (std::size_t k = 0; k < runs.size(); ++k) {
      const UnitTimes t = unit_times(records[i * runs.size() + k]).front();
      const double forward = t.forward_bytes / bytes_per_element / runs[k].batch, backward = t.backward_bytes / bytes_per_element / runs[k].batch;
      step[k][0] = forward + backward, step[k][1] = 2 * forward + backward;
      // Row 1 is 2-D; its own quotients are 1, those of 1-D are there once 2-D is known.
      table.rows.push_back({t.method + ", batch " + std::to_string(runs[k].batch) + ", s = " + std::to_string(32 * sequences[i]) + "/32",
                            {static_cast<double>(sequences[i]), forward, backward, step[k][0], step[k][1], no_number, no_number}});
    }
    for (std::size_t k = 0; k < runs.size(); ++k)
      for (int r = 0; r < 2; ++r) table.rows[i * runs.size() + k].values[static_cast<std::size_t>(5 + r)] = step[k][r] / step[1][r];
    for (int r = 0; r < 2; ++r) {
      closest_1d = std::max(closest_1d, step[1][r] / step[0][r]);
      for (std::size_t k = 2; k < runs.size(); ++k) thinnest = std::max(thinnest, step[k][r] / step[1][r]);
    }
  }
  strict = thinnest < 1 && closest_1d < 1;
  o.measures = {{"largest 3-D / 2-D", thinnest, no_number, no_number, 1, "ratio"}, {"largest 2-D / 1-D", closest_1d, no_number, no_number, 1, "ratio"}};
  o.tables = {std::move(table)};
  o.verdict = strict ? Verdict::confirmed : Verdict::refuted;
  char text[400];
  std::snprintf(text, sizeof text, "counted on 64 ranks at the paper's batches (30, 384, 384), keep, gathered again once and literally, with and without recomputation: 3-D / 2-D at most %.3f%s, 2-D / 1-D at most %.3f",
                thinnest, thinnest > thin ? " (thin)" : "", closest_1d);
  o.because = text;
  return o;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C5b",
     .statement = "At 64 ranks 3-D sends fewer bytes per rank than 2-D, and 2-D fewer than 1-D: counted.",
     .provenance = "read: abstract page of 2105.14450 (less communication than 1-D and 2-D), batches and h from its table; s derived (512 and 1024)",
     .rule = "counters on 64 oversubscribed ranks, a layer with h = 8192/32, s = 512/32 and 1024/32, batches 30, 384, 384, per sequence: CONFIRMED iff strict for every policy; \"thin\" if any 3-D / 2-D "
             "exceeds 0.9",
     .basis = Basis::exact,
     .from = Profile::standard,
     .judge = judge});

}  // namespace
}  // namespace thinwire::claims
