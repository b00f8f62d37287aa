// sharded_compression.C4: what ranks hold of the model falls as 1/W (docs/training.md, "Sharded training"). With P numbers in matrices, V in vectors, u in the largest
// unit, f32 and Adam:
//   ZeRO-1  8P + 16P/W      ZeRO-2  4P + 16P/W + 8u      ZeRO-3  16P/W + 16u, two units' values and gradients      and 16V on every rank
// What else a rank needs (activations, workspace) is what one rank alone holds beside 16 (P + V), with the same micro-batch.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"
#include "models/training/step_schedule.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

const std::vector<int> group_sizes = {1, 2, 4, 8};

CellRequest request_of(int ranks, int zero_stage) {
  return training(ranks, {{"zero-stage", std::to_string(zero_stage)}, {"layers", "8"}, {"hidden", "128"}, {"seq", "8"}, {"global-batch", std::to_string(ranks)}});
}

std::string name_of_arm(int ranks, int zero_stage) { return "ZeRO-" + std::to_string(zero_stage) + " on " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"); }

double peak_of(const results::CellRecord& record) {
  if (record.training.memory.size() != static_cast<std::size_t>(record.ranks)) throw RuntimeFailure("cell " + record.cell_id + " says nothing about the memory of its ranks");
  std::int64_t most = 0;
  for (const results::TrainingMemoryRow& row : record.training.memory) most = std::max(most, row.peak_bytes);
  return static_cast<double>(most);
}

double formula(const TrainConfig& c) {
  const MatrixElements e = matrices_of(c);
  const auto matrices = static_cast<double>(e.all()), vectors = static_cast<double>(vector_elements(c)), ranks = static_cast<double>(c.mesh.dp);
  const auto unit = static_cast<double>(std::max(e.layer, e.positions + e.table));
  if (c.mesh.dp == 1) return 16 * (matrices + vectors);
  const double whole[] = {16, 8, 4, 0}, lent[] = {0, 0, 8, 16};
  const auto stage = static_cast<std::size_t>(c.zero_stage);
  return whole[stage] * matrices + 16 * matrices / ranks + lent[stage] * unit + 16 * vectors;
}

/// Most units that are whole at once: from the start of a gather to its release.
int most_whole(const Schedule& schedule) {
  int now = 0, most = 0;
  for (const Instruction& i : schedule.stage[0]) {
    now += i.kind == InstructionKind::unshard ? 1 : i.kind == InstructionKind::reshard ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  std::vector<CellRequest> requests = {request_of(1, 0)};
  for (const int zero_stage : {1, 2, 3})
    for (const int ranks : group_sizes) requests.push_back(request_of(ranks, zero_stage));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  const double beside = peak_of(records[0]) - formula(config_of(requests[0]));
  Finding found;
  Table table{"peak of the rank that holds most (MiB)", {"zero stage", "ranks", "counted", "formula", "counted / formula"}, {}};
  double worst = 0;
  int units = 0;
  for (std::size_t i = 1; i < records.size(); ++i) {
    const TrainConfig c = config_of(requests[i]);
    const double counted = peak_of(records[i]), expected = beside + formula(c), ratio = counted / expected;
    if (!(std::abs(ratio - 1) <= worst)) worst = std::abs(ratio - 1);  // also what is no number
    table.rows.push_back({name_of_arm(c.mesh.dp, c.zero_stage), {static_cast<double>(c.zero_stage), static_cast<double>(c.mesh.dp), counted / (1 << 20), expected / (1 << 20), ratio}});
    if (c.zero_stage == 3) units = std::max(units, most_whole(training_schedule(c)));
  }
  found.measures = {{"|counted / formula - 1| of the rank that holds most, the largest", worst, no_number, no_number, rule.constant("bound"), "", "worst"},
                    {"units whole at once under ZeRO-3, the most", static_cast<double>(units), no_number, no_number, rule.constant("two"), "", "units"},
                    {"beside the model on one rank", beside / (1 << 20), no_number, no_number, no_number, "MiB"}};
  found.tables = {std::move(table)};
  return found;
}

Claim claim() {
  std::vector<NamedRequest> arms = {{"one rank", request_of(1, 0)}};
  for (const int zero_stage : {1, 2, 3})
    for (const int ranks : group_sizes) arms.push_back({name_of_arm(ranks, zero_stage), request_of(ranks, zero_stage)});
  const Rule rule = with_arms({.quantities = {{"worst", "|peak of the allocator over (closed form + what one rank holds beside the model) - 1| of the rank that holds most, the largest of all arms"},
                                              {"units", "units whole at once, from the start of a gather to its release, in ZeRO-3's schedules with prefetch 1: the most"}},
                               .constants = {{"bound", 0.15, "of the closed form"}, {"two", 2, "units: the one that computes and the next"}},
                               .clauses = {{Verdict::pass, "worst <= bound && units <= two"}},
                               .otherwise = Verdict::fail},
                              arms);
  return {.id = "sharded_compression.C4",
          .statement = "Memory falls as 1/W.",
          .provenance = "derived",
          .basis = Basis::exact,
          .from = Profile::standard,
          .rule = rule,
          .measure = [rule](JudgeContext& context) { return measure(context, rule); }};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
