#include "experiments/claims/optimus_cc/cells/arms.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "models/data/corpus.h"

namespace thinwire::claims::optimus_cc {
namespace {

constexpr int pilot_seed = 1000;

results::Parameters parameters_of(const JudgeContext& context, const Arm& arm, int seed) {
  results::Parameters p;
  p.set("pp", stages);
  p.set("dp", replicas);
  p.set("layers", layers);
  p.set("hidden", hidden);
  p.set("heads", 4);
  p.set("seq", seq);
  p.set("micro-batch", micro_batch);
  p.set("global-batch", micro_batch * micro_batches * replicas);
  p.set("comm-dtype", "f32");  // as the released scripts
  p.set("learning-rate", 0.003);
  p.set("steps", context.steps());
  p.set("eval-interval", std::max(1, context.steps() / 10));
  p.set("eval-sequences", 256);
  p.set("seed", seed);
  p.set("plan", arm.name);
  for (const auto& [name, value] : arm.settings) p.set(name, value);
  return p;
}

CellRequest request_of(const JudgeContext& context, const Arm& arm, int seed) {
  return {"train_gpt", stages * replicas, "shm", parameters_of(context, arm, seed), 300, {"optimus_cc", arm.name}};
}

std::vector<results::CellRecord> records_of(JudgeContext& context, const std::vector<Arm>& arms, int seeds) {
  std::vector<CellRequest> requests;
  for (int seed = 1; seed <= seeds; ++seed)  // seed by seed: what is finished after an interruption can be compared
    for (const Arm& arm : arms) requests.push_back(request_of(context, arm, seed));
  return context.cells.run(requests);
}

double final_loss(const results::CellRecord& record) {
  double loss = no_number;
  for (const results::TrainingCurveRow& row : record.training.curve)
    if (!std::isnan(row.validation_loss)) loss = row.validation_loss;
  if (std::isnan(loss)) throw RuntimeFailure("cell " + record.cell_id + " has no validation loss");
  return loss;
}

std::string codec(int rank) {
  return "powersgd:rank=" + std::to_string(rank);
}

/// Stages as train_gpt's ranges name them.
std::string first_stages(int count) {
  return count == 1 ? "0" : "0-" + std::to_string(count - 1);
}

}  // namespace

Arm dense() {
  return {"dense", {}};
}

Arm backward(int rank, Lep lep, bool epilogue_only) {
  const std::string how = lep == Lep::off ? " without LEP" : lep == Lep::drop ? ", leftover dropped" : "";
  const std::string wrapper = lep == Lep::off ? "" : lep == Lep::drop ? "+lep:leftover=drop" : "+lep";
  return {"CB rank " + std::to_string(rank) + how + (epilogue_only ? ", epilogue" : ", all"),
          {{"compress.pp_backward", codec(rank) + wrapper}, {"compress.pp_backward.epilogue_only", epilogue_only ? "true" : "false"}}};
}

Arm warmed_up(Arm arm, int steps) {
  arm.name += ", warm-up " + std::to_string(steps);
  arm.settings["compress.pp_backward.warmup_steps"] = std::to_string(steps);
  return arm;
}

Arm selective(int count, int rank) {
  return {(count == stages ? "uniform rank " : "SC " + std::to_string(count) + " stages rank ") + std::to_string(rank),
          {{"compress.dp_gradient", codec(rank) + "+ef"}, {"compress.dp_gradient.stages", first_stages(count)}}};
}

Arm naive(int rank, int dp_rank) {
  Arm arm = backward(rank, Lep::off, false);
  arm.name = "naive ranks " + std::to_string(rank) + ", " + std::to_string(dp_rank);
  arm.settings["compress.dp_gradient"] = codec(dp_rank);
  return arm;
}

Arm full_stack(Lep lep) {
  Arm arm = backward(boundary_rank, lep, true);
  arm.name = lep == Lep::carry ? "CB+FE+SC" : lep == Lep::drop ? "CB+FE+SC, leftover dropped" : "CB+FE+SC without LEP";
  arm.settings.merge(selective(3, gradient_rank).settings);
  arm.settings["embedding-sync"] = "fused";
  return arm;
}

std::vector<std::vector<double>> losses(JudgeContext& context, const std::vector<Arm>& arms, int seeds) {
  const std::vector<results::CellRecord> records = records_of(context, arms, seeds);
  std::vector<std::vector<double>> of(arms.size());
  for (std::size_t i = 0; i < records.size(); ++i) of[i % arms.size()].push_back(final_loss(records[i]));
  return of;
}

double pilot_loss(JudgeContext& context, const Arm& arm) {
  return final_loss(context.cells.run_one(request_of(context, arm, pilot_seed)));
}

std::string invalid_because(const std::vector<double>& baseline, const Interval& difference, double margin) {
  const double unigram = Corpus::python_standard_library().unigram_entropy(), trained = interval_of(baseline).mean;
  char text[160];
  if (!(unigram - trained >= 0.5)) {
    std::snprintf(text, sizeof text, "control failed: the baseline's loss %.3f is not 0.5 nat below the text's unigram entropy %.3f", trained, unigram);
    return text;
  }
  const bool far = difference.low - margin >= delta || margin - difference.high >= delta;
  if (!(difference.deviation < delta || far)) {
    std::snprintf(text, sizeof text, "control failed: paired differences scatter by %.4f nat, not less than %.2f", difference.deviation, delta);
    return text;
  }
  return "";
}

std::string remark_on_scatter(const Interval& difference) {
  if (difference.deviation < delta) return "";
  char text[200];
  std::snprintf(text, sizeof text, " (paired differences scatter by %.3f nat, more than the control's %.2f, but the whole interval lies beyond the margin by more than that)",
                difference.deviation, delta);
  return text;
}

std::vector<Table> tables_of(JudgeContext& context, const std::vector<Arm>& arms, int seeds) {
  Table final{"validation loss (nats per token)", {}, {}}, curves{"validation loss over steps", {}, {}};
  for (int seed = 1; seed <= seeds; ++seed) final.columns.push_back("seed " + std::to_string(seed));
  for (const Arm& arm : arms) {
    final.rows.push_back({arm.name, {}});
    curves.rows.push_back({arm.name, {}});
  }
  const std::vector<results::CellRecord> records = records_of(context, arms, seeds);
  for (std::size_t i = 0; i < records.size(); ++i) {
    final.rows[i % arms.size()].values.push_back(final_loss(records[i]));
    std::vector<double>& curve = curves.rows[i % arms.size()].values;
    std::size_t at = 0;
    for (const results::TrainingCurveRow& row : records[i].training.curve) {
      if (std::isnan(row.validation_loss)) continue;
      if (i == 0) curves.columns.push_back("step " + std::to_string(row.step + 1));
      if (at == curve.size()) curve.push_back(0);
      curve[at++] += row.validation_loss / seeds;
    }
  }
  return {final, curves};
}

}  // namespace thinwire::claims::optimus_cc
