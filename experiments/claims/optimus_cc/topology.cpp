// optimus_cc.M3, no claim of the paper but of ours: the step model on 16 nodes, fast inside and slow between, as an emulated link carries
// them on oversubscribed ranks.
#include <cmath>

#include "experiments/claims/context.h"
#include "experiments/claims/interval.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "experiments/claims/optimus_cc/cells/timed.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

struct Topology {
  std::string name, link;
  int tp, pp, dp;
  std::string order, codec;
};

CellRequest request_of(const Topology& t) {
  CellRequest r;
  r.program = "train_gpt";
  r.ranks = t.tp * t.pp * t.dp;
  r.link = t.link;
  const std::map<std::string, std::string> settings = {
      {"tp", std::to_string(t.tp)}, {"pp", std::to_string(t.pp)}, {"dp", std::to_string(t.dp)}, {"order", t.order},
      {"layers", "4"}, {"hidden", "128"}, {"heads", "4"}, {"seq", "32"}, {"max-seq", "32"}, {"micro-batch", "2"},
      {"global-batch", std::to_string(2 * 4 * t.dp)}, {"comm-dtype", "f32"}, {"overlap", "false"}, {"compute", "timed"}, {"serial-steps", "1"}, {"steps", "8"},
      {"stage-forward-us", "20000"}, {"stage-backward-us", "60000"}, {"plan", t.name}};
  for (const auto& [name, value] : settings) r.parameters.set(name, value);
  if (!t.codec.empty()) r.parameters.set("compress.dp_gradient", t.codec);
  r.tags = {"optimus_cc", "timed"};
  return r;
}

std::vector<Topology> all_topologies() {
  const std::string slow = "emulated:200mbit,latency=50us";
  return {
      {"16 nodes of 1, P 4, D 4", slow, 1, 4, 4, "tp-dp-pp", ""},
      {"16 nodes of 1, P 4, D 4, PowerSGD 8 on gradients", slow, 1, 4, 4, "tp-dp-pp", "powersgd:rank=8+ef"},
      {"16 nodes of 2, T 2, P 4, D 4", slow + ",node=2,inside=20gbit,inside_latency=5us", 2, 4, 4, "tp-dp-pp", ""},
      {"4 nodes of 4, P 4, D 4, replicas inside", slow + ",node=4,inside=20gbit,inside_latency=5us", 1, 4, 4, "tp-dp-pp", ""}};
}

Finding measure(JudgeContext& context, const Rule& rule) {
  const std::vector<Topology> topologies = all_topologies();
  std::vector<CellRequest> requests;
  for (const Topology& t : topologies) requests.push_back(request_of(t));
  const std::vector<results::CellRecord> records = run_measured(context, requests);
  Finding o;
  Table table{"topologies measured and predicted", {"ranks", "measured (ms)", "low", "high", "predicted (ms)", "distance"}, {}};
  double worst = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::vector<double> ms;
    double predicted = no_number;
    for (const results::SampleRow& sample : records[i].samples)
      if (sample.traffic == "step") ms.push_back(sample.total_us * 1e-3);
    for (const results::TrainingPredictionRow& row : records[i].training.prediction)
      if (row.part == "step") predicted = row.predicted_ms;
    const Interval measured = location_of(ms);
    const double distance = predicted / measured.mean - 1;
    table.rows.push_back({topologies[i].name, {static_cast<double>(records[i].ranks), measured.mean, measured.low, measured.high, predicted, distance}});
    o.measures.push_back({"distance of the model, " + topologies[i].name, distance, no_number, no_number, rule.constant("step_bound"), "of the step"});
    if (std::isnan(distance) || std::abs(distance) > std::abs(worst)) worst = distance;
  }
  o.tables.push_back(std::move(table));
  o.measures.push_back({"largest distance of a step from the model", worst, no_number, no_number, rule.constant("step_bound"), "of the step", "step"});
  return o;
}

Claim claim() {
  Rule rule;
  std::vector<NamedRequest> arms;
  for (const Topology& t : all_topologies()) arms.push_back({t.name, request_of(t)});
  add_arms(rule, arms);
  rule.quantities = {{"step", "modelled over measured step - 1, of the arm where that is farthest from 0; measured: location of the run's steps by Wilcoxon's signed ranks"}};
  rule.constants = {{"step_bound", 0.1, "of the step: as far as the model may be off, and the smallest distance worth naming"}};
  rule.clauses = {{Verdict::confirmed, "abs(step) <= step_bound"}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "step_bound";
  return {.id = "optimus_cc.M3",
          .statement = "The event model predicts timed steps on 16 nodes whose ranks share a slow card.",
          .provenance = "derived: a check of ours, no claim of the paper",
          .basis = Basis::emulated_link,
          .from = Profile::standard,
          .rule = rule,
          .measure = [rule](JudgeContext& context) { return measure(context, rule); },
          .figure = "optimus_cc_model"};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
