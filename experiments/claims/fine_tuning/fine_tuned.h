// Claims on what fine-tuned models reach on tasks of sentences, as claims on losses are (experiments/claims/trained.h): arms of one task and seed share weights, order of the data and dev
// rows, so differences are paired. A task counts only if pre-training gains enough on it: where a model from scratch does as well, the pre-trained weights are not what codecs could spoil; and only if the
// dense arm is well above chance, which retention divides by. A run of a coded arm that diverges has the metric of chance: accuracy that is lost is what these claims speak of.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/claims/fine_tuning/task_result.h"
#include "experiments/claims/trained.h"

namespace thinwire::claims {

/// Of the stand-in tasks (docs/papers/text_tasks.md) those of single sentences, acceptability and polarity: fine-tuning on pairs gains next to nothing from the study's pre-training (docs/text.md, "Which
/// tasks are tests").
std::vector<TuningTask> tasks_of_sentences();

/// What the arms of one comparison share.
struct FineTuning {
  std::string name;
  CellRequest cell;  ///< of train_gpt, untimed: every option but task, its steps, model, seed, plan and what an arm states itself
  std::vector<TuningTask> tasks;
  /// Arms that begin with another pre-trained model than the study's, and the options of pretrain.sh that make it. Such an arm's setting `from` names the model's folder.
  std::map<std::string, std::string> pretrained_by = {};
  int first_seed = 1;  ///< of the runs: a claim that is asked again after others' cells were seen takes seeds of its own
};
/// The study's model of 4 layers, hidden 256, on two tensor-parallel ranks times two stages, as the paper's accuracy runs (TP 2, PP 2): 32 sequences a step in micro-batches of 8.
FineTuning two_by_two(std::string name, std::vector<TuningTask> tasks);

/// The cell of an arm: begun with the study's pre-trained model, or that of the arm's setting `from`, of this content; empty: with weights drawn by the seed. `data`: task_content() of the task.
CellRequest cell_of(const FineTuning& tuning, const TuningTask& task, const RuleArm& arm, int seed, const std::string& pretrained, const std::string& data);

/// What a rule may ask for of an arm: its retention, the metric above chance over that of the dense arm, mean over the tasks that count.
struct Retention {
  std::string symbol, arm;
};

/// A claim on retentions: data, but for its clauses and constants, which come with `claim.rule`. The arms' first is the dense one. Every rule says NOT DECIDABLE where fewer than
/// `least_tasks` count with the claim's largest number of seeds, and INCONCLUSIVE with a smaller one: the interval of a gain may yet leave 0. Registers it.
struct MetricClaim {
  Claim claim;
  FineTuning tuning;
  std::vector<RuleArm> arms;
  std::vector<Retention> retentions;
  int least_tasks = 2;
};
bool register_metric_claim(MetricClaim of, std::source_location where = std::source_location::current());

}  // namespace thinwire::claims
