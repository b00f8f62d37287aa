#include "experiments/claims/optimus_cc/cells/arms.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/error.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "models/data/corpus.h"

namespace thinwire::claims::optimus_cc {
namespace {

constexpr int pilot_seed = 1000;
constexpr std::string_view tenth_of_steps = "steps / 10";

results::Parameters parameters_of(int steps, const Arm& arm, int seed) {
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
  p.set("steps", steps);
  p.set("eval-interval", std::max(1, steps / 10));
  p.set("eval-sequences", 256);
  p.set("seed", seed);
  p.set("plan", arm.name);
  for (const auto& [name, value] : arm.settings) p.set(name, value);
  return p;
}

CellRequest request_of(int steps, const Arm& described, int seed) {
  const Arm arm = at_steps(described, steps);
  return {"train_gpt", stages * replicas, "shm", parameters_of(steps, arm, seed), 300, {"optimus_cc", arm.name}, /*timed=*/false};
}

void put_number(std::string& text, int steps) {
  if (const std::size_t at = text.find(tenth_of_steps); at != std::string::npos) text.replace(at, tenth_of_steps.size(), std::to_string(steps / 10));
}

std::vector<results::CellRecord> records_of(JudgeContext& context, const std::vector<Arm>& arms, int seeds) {
  std::vector<CellRequest> requests;
  for (int seed = 1; seed <= seeds; ++seed)  // seed by seed: what is finished after an interruption can be compared
    for (const Arm& arm : arms) requests.push_back(request_of(context.steps(), arm, seed));
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

Arm warmed_up(Arm arm) {
  arm.name += ", warm-up " + std::string(tenth_of_steps);
  arm.settings["compress.pp_backward.warmup_steps"] = tenth_of_steps;
  return arm;
}

Arm at_steps(Arm arm, int steps) {
  put_number(arm.name, steps);
  for (auto& [name, value] : arm.settings) put_number(value, steps);
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
  return final_loss(context.cells.run_one(request_of(context.steps(), arm, pilot_seed)));
}

Constant quality_margin() { return {"margin", 0.02, "nats per token: the smallest loss of quality worth naming"}; }
Constant resolution() { return {"resolution", 0.02, "nats per token: the scatter that still tells a loss of quality from none"}; }
Constant smallest_gain() { return {"smallest", 0.005, "nats per token: the smallest gain worth naming"}; }

Rule training_rule(std::vector<Arm> arms) {
  Rule rule;
  rule.settings = settings_of(request_of(300, dense(), 1));
  rule.settings["steps"] = "300 (1000 in the profile full)";
  rule.settings["eval-interval"] = tenth_of_steps;
  rule.settings["seed"] = "1, 2, ...: initial weights and order of the data, the same for all arms";
  rule.arms = std::move(arms);
  rule.quantities = {{"baseline", "final validation loss of the arm " + rule.arms.front().name + ", nats per token, mean over seeds with its 95 % interval by Student's t"},
                     {"worst", "the largest final validation loss of any arm and seed, nats per token"},
                     {"entropy", "entropy of the training text's single bytes (unigrams), nats"}};
  rule.constants = {{"learned", 0.5, "nats per token by which the baseline must beat the unigrams, or it learned too little to compare with"}};
  rule.clauses = {{Verdict::invalid, "entropy - baseline < learned"}, {Verdict::unstable, "worst > entropy"}};
  return rule;
}

std::vector<Measure> control_measures(const std::vector<Arm>& arms, const std::vector<std::vector<double>>& losses) {
  double worst = no_number;
  for (const std::vector<double>& of_arm : losses)
    for (const double loss : of_arm) worst = std::fmax(worst, loss);  // passes over NaN; a loss is a number (final_loss)
  return {measure_of("L(" + arms.front().name + ")", interval_of(losses.front()), no_number, "nats per token", "baseline"),
          {"control: largest final loss of any arm and seed", worst, no_number, no_number, no_number, "nats per token", "worst"},
          {"control: the text's unigram entropy", Corpus::python_standard_library().unigram_entropy(), no_number, no_number, no_number, "nats per token", "entropy"}};
}

std::vector<PastChange> changes_of_scatter() {
  return {{"2026-11-21", "paired differences that scatter by 0.02 nat or more no longer make the claim INVALID where the whole interval lies at least 0.02 nat away from the margin",
           "the control as written also called invalid what no scatter can hide, a loss of 1.2 nat with an interval of 1.1 to 1.3; by its letter C1, C2 and C13 were INVALID"},
          {"2026-11-22", "scatter is the half-width of the 95 % interval, no longer the standard deviation of one difference, and too much of it is INCONCLUSIVE, no longer INVALID; "
                         "a run that ends above the text's unigram entropy makes the claim UNSTABLE",
           "one control of scatter and one meaning of each verdict for all claims"}};
}

std::vector<Table> tables_of(JudgeContext& context, const std::vector<Arm>& arms, int seeds) {
  Table final{"validation loss (nats per token)", {}, {}}, curves{"validation loss over steps", {}, {}};
  for (int seed = 1; seed <= seeds; ++seed) final.columns.push_back("seed " + std::to_string(seed));
  for (const Arm& arm : arms) {
    const std::string name = at_steps(arm, context.steps()).name;
    final.rows.push_back({name, {}});
    curves.rows.push_back({name, {}});
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
