// sharded_compression.C3a: how often a pipeline gathers the weights of a layer in a step, by the instructions that the executor runs, and that the counted bytes are
// those gathers. What they cost in time (C3b) is not measured yet.
#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/claims/sharded_compression/cells/sharded_run.h"
#include "models/training/step_schedule.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr int stages = 2, replicas = 2, micro_batches = 8, layers = 8;
const std::vector<std::string> keeps = {"layer", "micro_batch", "step"};

CellRequest request_of(const std::string& keep) {
  return training(stages * replicas, {{"zero-stage", "3"}, {"zero-keep", keep}, {"zero-reduce", "step"}, {"pp", "2"}, {"dp", "2"}, {"layers", std::to_string(layers)}, {"global-batch", "16"}});
}

/// Gathers of a step, by unit, of a stage.
std::map<int, int> gathers_of(const Schedule& schedule, int stage) {
  std::map<int, int> gathers;
  for (const Instruction& i : schedule.stage[static_cast<std::size_t>(stage)]) gathers[i.unit] += i.kind == InstructionKind::unshard ? 1 : 0;
  gathers.erase(-1);  // messages
  return gathers;
}

struct Counts {
  int least_between = 0, most_between = 0;  ///< layers with a layer of the same stage on both sides
  int least = 0, most = 0;                  ///< of any layer
  std::int64_t bytes = 0;                   ///< of a step, over all ranks
};

Counts counts_of(const TrainConfig& c, Table& table) {
  const Schedule schedule = training_schedule(c);
  const MatrixElements e = matrices_of(c);
  Counts counts{1 << 30, 0, 1 << 30, 0, 0};
  for (int stage = 0; stage < stages; ++stage) {
    const std::map<int, int> gathers = gathers_of(schedule, stage);
    const int first = stage == 0 ? 1 : 0, last = first + layers / stages - 1;  // units of layers: the embedding stands in front, the head behind
    Table::Row row{"kept for " + c.zero_keep + ", stage " + std::to_string(stage), {}};
    for (int unit = first; unit <= last; ++unit) {
      const int n = gathers.at(unit);
      row.values.push_back(n);
      counts.least = std::min(counts.least, n), counts.most = std::max(counts.most, n);
      counts.bytes += n * e.layer;
      if (unit == first || unit == last) continue;
      counts.least_between = std::min(counts.least_between, n), counts.most_between = std::max(counts.most_between, n);
    }
    // The tied table is sharded in both stages that hold it: with the positions in the first, as the head of the last.
    counts.bytes += stage == 0 ? gathers.at(0) * (e.table + e.positions) : gathers.at(last + 1) * e.table;
    table.rows.push_back(std::move(row));
  }
  counts.bytes *= (replicas - 1) * static_cast<std::int64_t>(size_of(c.comm_dtype));
  return counts;
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> requests;
  for (const std::string& keep : keeps) requests.push_back(request_of(keep));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Finding found;
  Table table{"gathers per step, by layer of the stage", {}, {}};
  for (int i = 0; i < layers / stages; ++i) table.columns.push_back("layer " + std::to_string(i));
  std::int64_t largest = 0;
  std::vector<Counts> counts;
  for (std::size_t k = 0; k < keeps.size(); ++k) {
    const TrainConfig c = config_of(requests[k]);
    counts.push_back(counts_of(c, table));
    for (std::int64_t step = 0; step < c.steps; ++step) {
      const std::int64_t apart = sent(records[k], "param_all_gather", step) - counts[k].bytes;
      if (std::abs(apart) > std::abs(largest)) largest = apart;
    }
  }
  const auto number = [&](const std::string& name, int value, double margin, const std::string& symbol) {
    found.measures.push_back({name, static_cast<double>(value), no_number, no_number, margin, "gathers", symbol});
  };
  number("kept for a pass: fewest of a layer between two others", counts[0].least_between, 2 * micro_batches, "least_between");
  number("kept for a pass: most", counts[0].most, 2 * micro_batches, "most");
  number("kept for a micro-batch: most", counts[1].most, micro_batches, "kept");
  number("kept for the step: fewest", counts[2].least, 1, "once_least");
  number("kept for the step: most", counts[2].most, 1, "once_most");
  found.measures.push_back({"bytes of weights in a step less those of these gathers, farthest from 0", static_cast<double>(largest), no_number, no_number, 0, "bytes", "largest"});
  found.note = "a layer whose passes follow one another at the end of a stage is gathered once for both";
  found.tables = {std::move(table)};
  return found;
}

Rule make_rule() {
  std::vector<NamedRequest> arms;
  for (const std::string& keep : keeps) arms.push_back({"kept for " + keep, request_of(keep)});
  return with_arms({.quantities = {{"least_between", "gathers in a step of a layer that has layers of its stage on both sides, kept for a pass: the fewest"},
                                   {"most", "gathers in a step of any layer, kept for a pass: the most"},
                                   {"kept", "the same, kept for a micro-batch"},
                                   {"once_least", "gathers in a step of a layer, kept for the step: the fewest"},
                                   {"once_most", "the most"},
                                   {"largest", "bytes of weights that a step sends less those of these gathers, the difference farthest from 0"}},
                    .constants = {{"M", micro_batches, "micro-batches"}},
                    .clauses = {{Verdict::pass, "least_between == 2 * M && most == 2 * M && kept <= M && once_least == 1 && once_most == 1 && largest == 0"}},
                    .otherwise = Verdict::fail},
                   arms);
}

const bool registered = register_claim({.id = "sharded_compression.C3a",
                                        .statement = "With a pipeline, gathering again costs 2M gathers per unit.",
                                        .provenance = "derived",
                                        .basis = Basis::exact,
                                        .from = Profile::quick,
                                        .rule = make_rule(),
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
