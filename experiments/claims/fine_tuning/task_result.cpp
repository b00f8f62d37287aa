#include "experiments/claims/fine_tuning/task_result.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace thinwire::claims {

double final_metric(const results::CellRecord& record, const std::string& metric) {
  double value = no_number;
  for (const results::TrainingMetricRow& row : record.training.metrics)  // in the order of the steps
    if (row.metric == metric) value = row.value;
  if (std::isnan(value)) throw RuntimeFailure("cell " + record.cell_id + " has no " + metric);
  return value;
}

double activation_bytes(const results::CellRecord& record) {
  std::int64_t last = 0, bytes = 0;
  bool counted = false;
  for (const results::TrainingStepRow& row : record.training.steps) last = std::max(last, row.step);
  for (const results::TrainingStepRow& row : record.training.steps)
    if (row.step == last && (row.traffic == "tp_forward" || row.traffic == "pp_forward" || row.traffic == "pp_backward")) bytes += row.link_bytes, counted = true;
  return counted ? static_cast<double>(bytes) : no_number;
}

std::vector<Table> task_tables(const std::string& name, const std::string& gain, const std::vector<RuleArm>& arms, const std::vector<TaskResult>& results) {
  std::vector<Table> tables;
  Table gains{gain + ", " + name, {"gain", "low", "high", "chance", "counts"}, {}};
  for (const TaskResult& r : results) {
    gains.rows.push_back({r.task.name, {r.gain.mean, r.gain.low, r.gain.high, r.task.chance, r.counts ? 1.0 : 0.0}});
    Table of{r.task.metric + " of " + r.task.name + ", " + name, {}, {}};
    for (std::size_t seed = 1; seed <= r.metric.front().size(); ++seed) of.columns.push_back("seed " + std::to_string(seed));
    for (std::size_t a = 0; a < r.metric.size(); ++a) of.rows.push_back({a < arms.size() ? arms[a].name : "from scratch", r.metric[a]});
    tables.push_back(std::move(of));
  }
  Table bytes{"link bytes of a step's activations, " + name, {"MB", "dense over sent"}, {}};
  for (std::size_t a = 0; a < arms.size(); ++a) {
    double sent = 0, dense = 0;
    for (const TaskResult& r : results) sent += r.link_bytes[a], dense += r.link_bytes.front();
    bytes.rows.push_back({arms[a].name, {sent * 1e-6 / static_cast<double>(results.size()), dense / sent}});
  }
  tables.insert(tables.begin(), std::move(bytes));
  tables.insert(tables.begin(), std::move(gains));
  return tables;
}

}  // namespace thinwire::claims
