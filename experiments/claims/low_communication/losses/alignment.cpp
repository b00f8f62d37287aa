// low_communication.C16: how alike the directions are in which replicas move in a round, under Muon and under AdamW. Each run tells it at the validation behind every outer step
// (docs/training.md, "Replicas that train apart").
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/claims/interval.h"
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

constexpr int first_round = 5, last_round = 25;

/// Mean over the outer steps that count. RuntimeFailure where one of them was not told.
double alignment(const results::CellRecord& record) {
  double sum = 0;
  int rounds = 0;
  for (const results::TrainingMetricRow& row : record.training.metrics) {
    const std::int64_t done = row.step + 1;
    if (row.metric != "outer_alignment" || done < first_round * inner_steps || done > last_round * inner_steps) continue;
    sum += row.value, ++rounds;
  }
  if (rounds != last_round - first_round + 1)
    throw RuntimeFailure("cell " + record.cell_id + " tells the alignment of " + std::to_string(rounds) + " outer steps instead of " + std::to_string(last_round - first_round + 1));
  return sum / rounds;
}

LossClaim claim(const std::string& part, int replicas) {
  const Trained adamw = arm("DiLoCo, aligned", diloco() + ",alignment=true", replicas),
                muon = arm("MuLoCo, aligned", diloco(inner_steps, "muon", "0.9", "0.8") + ",alignment=true", replicas);
  const std::string of = std::to_string(replicas) + " replicas";
  LossClaim c;
  c.claim = {.id = "low_communication.C16" + part,
             .statement = "Muon's pseudo-gradients align better than AdamW's" + (part.empty() ? std::string(".") : ": " + of + "."),
             .provenance = "read: MuLoCo's code",
             .from = Profile::full,
             .rule = {.quantities = {{"gain",
                                      "mean cosine of what two of the " + of + " moved in a round (all parameters as one vector, before it is averaged), mean over the outer steps 5 to 25: that of MuLoCo less "
                                      "that of DiLoCo; paired over seeds, 95 % interval by Student's t"}},
                      .constants = {{"worth", 0.02, "of a cosine: the smallest difference worth naming"}, {"none", 0, "no difference"}},
                      .scatter = {{"gain", "worth", "worth"}},
                      .clauses = {{Verdict::confirmed, "gain > worth && gain.low > none"}, {Verdict::not_reproduced, "gain.high < worth"}},
                      .smallest_effect = "worth"},
             .seeds = {5, 10},
             .figure = "replica_losses"};
  c.comparison = small_model(of + ", alignment", replicas);
  c.comparison.cell.parameters.set("eval-interval", std::int64_t{inner_steps});
  c.unit = LossUnit::nats;
  c.tuning.option = "learning-rate";
  for (const Trained& t : {adamw, muon}) {
    c.arms.push_back(t.arm);
    c.tuning.values[t.arm.name] = t.muon ? std::vector<std::string>{"0.01", "0.02", "0.04"} : std::vector<std::string>{"0.003", "0.006", "0.012"};
  }
  c.differences = {loss_difference("lost", muon.arm.name, adamw.arm.name)};
  c.more = [](JudgeContext&, const std::vector<RuleArm>& arms, const std::vector<std::vector<results::CellRecord>>& records, Finding& f) {
    std::vector<std::vector<double>> of_arm(records.size());
    std::vector<double> gain;
    Table table{"mean cosine of two replicas' pseudo-gradients", {}, {}};
    for (std::size_t a = 0; a < records.size(); ++a) {
      for (const results::CellRecord& record : records[a]) of_arm[a].push_back(alignment(record));
      table.rows.push_back({arms[a].name, of_arm[a]});
      f.measures.push_back(measure_of("cosine, " + arms[a].name, interval_of(of_arm[a]), no_number, "", ""));
    }
    for (std::size_t seed = 0; seed < of_arm[0].size(); ++seed) {
      table.columns.push_back("seed " + std::to_string(seed + 1));
      gain.push_back(of_arm[1][seed] - of_arm[0][seed]);
    }
    f.measures.push_back(measure_of("cosine of MuLoCo's pseudo-gradients less that of DiLoCo's", interval_of(gain), 0.02, "", "gain"));
    f.tables.push_back(std::move(table));
  };
  return c;
}

const bool on_eight = register_loss_claim(claim("", 8)), on_four = register_loss_claim(claim("b", 4)), on_two = register_loss_claim(claim("c", 2));

}  // namespace
}  // namespace thinwire::claims
