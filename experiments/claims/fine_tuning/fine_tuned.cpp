#include "experiments/claims/fine_tuning/fine_tuned.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "core/error.h"
#include "experiments/claims/arms.h"
#include "experiments/claims/fine_tuning/study_folder.h"
#include "experiments/claims/fine_tuning/task_result.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {
namespace {

constexpr double gain_that_counts = 0.02, above_chance_that_counts = 0.05;
constexpr int validations = 2;
constexpr double seconds_of_step = 0.125;  ///< of 32 sequences of 32 tokens, 4 ranks on two cores
constexpr double pass_of_step = 1.0 / 3;   ///< that a forward pass alone takes of it
/// A function, not a constant: claims in other sources are registered at start-up, perhaps before constants of this source are made.
RuleArm from_scratch() { return {"from scratch", {}}; }

std::string data_of(const TuningTask& task) { return "task:name=" + task.name; }

/// Of the dense arm, mean over seeds.
double above_chance(const TaskResult& result) { return interval_of(result.metric.front()).mean - result.task.chance; }

/// `failed` gets each run that diverged, in words.
std::vector<TaskResult> measure_tasks(JudgeContext& context, const FineTuning& tuning, const std::vector<RuleArm>& arms, const std::map<std::string, std::string>& pretrained, std::string& failed) {
  std::vector<CellRequest> requests;
  for (const TuningTask& task : tuning.tasks) {
    const std::string content = task_content(context, data_of(task));
    for (const RuleArm& arm : arms)
      for (int seed = 1; seed <= context.seeds(); ++seed) requests.push_back(cell_of(tuning, task, arm, seed, pretrained.at(arm.name), content));
    for (int seed = 1; seed <= context.seeds(); ++seed) requests.push_back(cell_of(tuning, task, from_scratch(), seed, "", content));
  }
  context.cells.prepare(requests);  // all of them at once
  std::vector<TaskResult> results;
  std::size_t next = 0;
  for (const TuningTask& task : tuning.tasks) {
    TaskResult& result = results.emplace_back(TaskResult{.task = task});
    for (std::size_t arm = 0; arm <= arms.size(); ++arm) {
      result.metric.emplace_back();
      double bytes = 0;
      int went_well = 0;
      for (int seed = 1; seed <= context.seeds(); ++seed, ++next) {
        try {
          const results::CellRecord record = context.cells.run_one(requests[next]);
          result.metric.back().push_back(final_metric(record, task.metric));
          bytes += activation_bytes(record), ++went_well;
        } catch (const ArmDiverged&) {
          if (arm == 0 || arm == arms.size()) throw;  // those that all others are held against
          result.metric.back().push_back(task.chance);
          failed += (failed.empty() ? "" : ", ") + arms[arm].name + " of seed " + std::to_string(seed) + " on " + task.name;
        }
      }
      result.link_bytes.push_back(went_well > 0 ? bytes / went_well : no_number);
    }
    result.gain = paired_interval(result.metric.back(), result.metric.front());
    result.counts = result.gain.mean >= gain_that_counts && result.gain.low > 0 && above_chance(result) >= above_chance_that_counts;
  }
  return results;
}

/// Of each seed 1 - mean over tasks of (dense - arm) / (mean dense - chance), so that what a seed does to both is no loss of the arm.
Interval retention_of(const std::vector<TaskResult>& results, std::size_t arm) {
  std::vector<double> of_seed;
  const auto counting = static_cast<double>(std::ranges::count_if(results, &TaskResult::counts));
  for (std::size_t seed = 0; seed < results.front().metric.front().size(); ++seed) {
    double lost = 0;
    for (const TaskResult& r : results)
      if (r.counts) lost += (r.metric[0][seed] - r.metric[arm][seed]) / above_chance(r);
    of_seed.push_back(1 - lost / counting);
  }
  return interval_of(of_seed);
}

Finding measure(JudgeContext& context, const FineTuning& tuning, const std::vector<RuleArm>& arms, const std::vector<Retention>& retentions, const std::vector<int>& numbers_of_seeds) {
  Finding found;
  std::map<std::string, std::string> pretrained;
  std::set<std::string> noted;
  for (const RuleArm& arm : arms) {
    const auto own = arm.settings.find("from");
    const auto made_by = tuning.pretrained_by.find(arm.name);
    const std::string folder = own == arm.settings.end() ? study_model : own->second;
    pretrained[arm.name] = pretrained_model(context, folder);
    const bool planned = pretrained[arm.name] == not_made_yet;
    if (!pretrained[arm.name].empty() && !planned) continue;
    found.note = no_pretrained_model(context, folder, made_by == tuning.pretrained_by.end() ? "" : made_by->second);
    if (planned) {
      if (noted.insert(folder).second) context.cells.note_missing(found.note);
      continue;
    }
    found.instead = Verdict::skipped;
    return found;
  }
  std::string failed;
  const std::vector<TaskResult> results = measure_tasks(context, tuning, arms, pretrained, failed);
  const auto counting = static_cast<double>(std::ranges::count_if(results, &TaskResult::counts));
  for (const Retention& r : retentions) {
    const auto arm = static_cast<std::size_t>(std::ranges::find(arms, r.arm, &RuleArm::name) - arms.begin());
    TW_ASSERT(arm < arms.size(), r.arm);
    // Of no task there is none; the rule then says why, before it asks.
    found.measures.push_back(measure_of("retention of " + r.arm, counting > 0 ? retention_of(results, arm) : Interval{0, 0, 0, 0, 0}, no_number, "", r.symbol));
  }
  found.measures.push_back({"tasks that count", counting, no_number, no_number, no_number, "", "tasks"});
  const auto more_seeds = static_cast<double>(std::ranges::count_if(numbers_of_seeds, [&](int seeds) { return seeds > context.seeds(); }));
  found.measures.push_back({"larger numbers of seeds", more_seeds, no_number, no_number, no_number, "", "more_seeds"});
  std::string untested, near_chance;
  for (const TaskResult& r : results) {
    if (r.counts) continue;
    if (above_chance(r) < above_chance_that_counts)
      near_chance += (near_chance.empty() ? "NO TEST, for the dense arm is too near chance: " : ", ") + r.task.name;
    else
      untested += (untested.empty() ? "NO TEST, for pre-training gains too little: " : ", ") + r.task.name;
  }
  found.note = tuning.name + ", pre-trained model " + pretrained.at(arms.front().name).substr(0, 8);
  for (const std::string& more : {untested, near_chance, failed.empty() ? "" : "diverged, and counted as chance: " + failed})
    if (!more.empty()) found.note += "; " + more;
  found.tables = task_tables(tuning.name, "gain of pre-training", arms, results);
  return found;
}

}  // namespace

std::vector<TuningTask> tasks_of_sentences() {
  return {{"acc", "task=classification", "matthews", 0, 24, 2000, 400}, {"pol", "task=classification", "accuracy", 0.548, 32, 2000, 400}};
}

FineTuning two_by_two(std::string name, std::vector<TuningTask> tasks) {
  CellRequest cell{"train_gpt", 4, "shm", {}, 3600, {"fine_tuning"}, /*timed=*/false};
  results::Parameters& p = cell.parameters;
  for (const auto& [option, value] : std::map<std::string, std::int64_t>{{"tp", 2}, {"pp", 2}, {"layers", study_layers}, {"hidden", study_hidden}, {"heads", study_heads}, {"vocab", study_vocabulary},
                                                                         {"micro-batch", 8}, {"global-batch", 32}})
    p.set(option, value);
  p.set("text", study_folder + "/tasks"), p.set("vocabulary", study_folder + "/vocab.txt"), p.set("comm-dtype", "f32");
  p.set("learning-rate", 3e-4), p.set("min-lr", 0.0), p.set("weight-decay", 0.01), p.set("beta2", 0.999), p.set("dropout", 0.1);  // unsaid they are GPT's
  return {std::move(name), std::move(cell), std::move(tasks)};
}

CellRequest cell_of(const FineTuning& tuning, const TuningTask& task, const RuleArm& arm, int seed, const std::string& pretrained, const std::string& data) {
  CellRequest request = tuning.cell;
  request.parameters.set("model", "bert:" + task.head), request.parameters.set("data", data_of(task)), request.parameters.set("data-sha256", data), request.parameters.set("seq", task.seq);
  request.parameters.set("steps", task.steps), request.parameters.set("warmup", task.steps / 10), request.parameters.set("eval-interval", task.steps / validations);
  request.parameters.set("seed", tuning.first_seed + seed - 1), request.parameters.set("plan", arm.name);
  if (!pretrained.empty()) request.parameters.set("from", study_model), request.parameters.set("from-sha256", pretrained);
  for (const auto& [name, value] : arm.settings) request.parameters.set(name, value);
  request.tags.push_back(arm.name), request.tags.push_back(task.name);
  const double steps = static_cast<double>(task.steps), validation = pass_of_step * static_cast<double>(task.dev) / 32;
  request.about_seconds = seconds_of_step * static_cast<double>(task.seq) / 32 * (steps + validations * validation);
  return request;
}

bool register_metric_claim(MetricClaim of, std::source_location where) {
  Rule rule = with_arms({}, {{of.tuning.name, of.tuning.cell}});  // all of them shared
  rule.settings["seed"] = std::to_string(of.tuning.first_seed) + ", " + std::to_string(of.tuning.first_seed + 1) + ", ...: order of the data, dropout and the new head (from scratch: all weights), the same for all arms";
  const std::size_t with_own = of.tuning.pretrained_by.size();
  rule.settings["from"] = with_own == of.arms.size()
                              ? "pre-trained models of one text by one recipe (experiments/text_tasks/pretraining.toml) but for what they state; of the last arm the weights are drawn by the seed"
                              : "the pre-trained model of " + study_folder + " (experiments/text_tasks/pretraining.toml), the same for all arms but one, which is drawn by the seed";
  std::string tasks;
  for (const TuningTask& t : of.tuning.tasks) {
    char chance[32];
    std::snprintf(chance, sizeof chance, "%g", t.chance);
    tasks += (tasks.empty() ? "" : "; ") + t.name + " (" + t.head + ", " + t.metric + ", chance " + chance + ", " + std::to_string(t.seq) + " tokens, " + std::to_string(t.steps) + " steps, a tenth of them warm-up)";
  }
  rule.settings["tasks"] = tasks;
  rule.settings.insert(of.claim.rule.settings.begin(), of.claim.rule.settings.end());
  if (with_own > 0 && with_own < of.arms.size()) rule.settings["from"] += "; the others of this text, of the same recipe but for what they state";
  for (const auto& [arm, options] : of.tuning.pretrained_by) rule.settings["pre-training of " + arm] = "on the same text, by pretrain.sh " + options;
  rule.arms = of.arms;
  rule.arms.push_back(from_scratch());
  rule.quantities = {{"tasks", "tasks that count: the metric of the arm " + of.arms.front().name + " less that of " + from_scratch().name +
                                   ", paired over seeds, is at least 0.02 and its 95 % interval lies above 0, and the arm " + of.arms.front().name + "'s mean is at least 0.05 above chance"}};
  for (const Retention& r : of.retentions)
    rule.quantities.push_back({r.symbol, "retention of the arm " + r.arm + ": of a seed 1 - mean over tasks that count of (metric of " + of.arms.front().name + " - its own) / (mean of " +
                                             of.arms.front().name + " - chance); a run of this arm that diverges has the metric chance; mean over seeds, 95 % interval by Student's t"});
  Rule& own = of.claim.rule;
  rule.constants = {{"least_tasks", static_cast<double>(of.least_tasks), "tasks that must count"}};
  // A gain counts by its interval, which is wide while seeds are few: only the largest number of them says that there are too few tasks.
  rule.quantities.push_back({"more_seeds", "numbers of seeds of this claim above the one that was measured"});
  rule.clauses = {{Verdict::not_decidable, "tasks < least_tasks && more_seeds == 0"}, {Verdict::inconclusive, "tasks < least_tasks"}};
  rule.constants.insert(rule.constants.end(), own.constants.begin(), own.constants.end());
  rule.clauses.insert(rule.clauses.end(), own.clauses.begin(), own.clauses.end());
  rule.scatter = own.scatter, rule.otherwise = own.otherwise, rule.smallest_effect = own.smallest_effect;
  own = rule;
  of.claim.basis = Basis::training;
  of.claim.measure = [tuning = of.tuning, arms = of.arms, retentions = of.retentions, seeds = of.claim.seeds](JudgeContext& context) { return measure(context, tuning, arms, retentions, seeds); };
  return register_claim(std::move(of.claim), where);
}

}  // namespace thinwire::claims
