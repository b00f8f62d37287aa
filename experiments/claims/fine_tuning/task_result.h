// What arms reach on a task of sentences, and the tables that figures draw it from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/claims/claim.h"
#include "experiments/claims/interval.h"
#include "results/record.h"

namespace thinwire::claims {

struct TuningTask {
  std::string name;       ///< of models/tasks: "acc"
  std::string head;       ///< options of --model bert
  std::string metric;     ///< that decides, of /training_metrics
  double chance = 0;      ///< what it is of a model that says the commonest label of dev everywhere
  std::int64_t seq = 32;  ///< tokens, of which longer rows lose their ends
  std::int64_t dev = 2000;  ///< rows of dev, for what a cell takes
  std::int64_t steps = 200;  ///< of fine-tuning, a tenth of them warm-up
};
struct TaskResult {
  TuningTask task;
  std::vector<std::vector<double>> metric = {};  ///< by arm and seed: of the claim's arms, then of the one from scratch where it is an arm of its own
  std::vector<double> link_bytes = {};           ///< of activations in a step, by arm, all ranks, mean over seeds that did not diverge
  Interval gain = {};                            ///< what decides, beside the dense arm's distance from chance, whether the task counts
  bool counts = false;
};

/// The metric of the last validation. RuntimeFailure naming the cell where it has none.
double final_metric(const results::CellRecord& record, const std::string& metric);
/// What crossed links forward, and came back between stages, in the record's last step; no_number where the record says nothing of it, as after `sweep collect --steps-of-at-most`.
double activation_bytes(const results::CellRecord& record);

/// Gains (a table named `gain`, NAME), link bytes by arm, and a table of metrics for each task. `arms`: the first is dense; a row more of metrics is "from scratch".
std::vector<Table> task_tables(const std::string& name, const std::string& gain, const std::vector<RuleArm>& arms, const std::vector<TaskResult>& results);

}  // namespace thinwire::claims
