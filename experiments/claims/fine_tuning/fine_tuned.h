// Claims on what fine-tuned models reach on tasks of sentences, as claims on losses are (experiments/claims/trained.h): arms of one task and seed share weights, order of the data and dev
// rows, so differences are paired. A task counts only if pre-training gains enough on it: where a model from scratch does as well, the pre-trained weights are not what codecs could spoil.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "experiments/claims/trained.h"

namespace thinwire::claims {

struct TuningTask {
  std::string name;      ///< of models/tasks: "acc"
  std::string head;      ///< options of --model bert
  std::string metric;    ///< that decides, of /training_metrics
  double chance = 0;     ///< what it is of a model that says the commonest label of dev everywhere
  std::int64_t seq = 32; ///< tokens, of which longer rows lose their ends
};
/// Of the stand-in tasks (docs/papers/text_tasks.md): acceptability, paraphrase, similarity, entailment of three ways.
std::vector<TuningTask> first_tasks();

/// What the arms of one comparison share.
struct FineTuning {
  std::string name;
  CellRequest cell;  ///< of train_gpt, untimed: every option but task, model, seed, plan and what an arm states itself
  std::vector<TuningTask> tasks;
};
/// The study's model of 4 layers, hidden 256, on two tensor-parallel ranks times two stages, as the paper's accuracy runs (TP 2, PP 2): 32 sequences a step in micro-batches of 8.
FineTuning two_by_two(std::string name, int steps, std::vector<TuningTask> tasks);

/// The cell of an arm: begun with the pre-trained model of this content; empty: with weights drawn by the seed.
CellRequest cell_of(const FineTuning& tuning, const TuningTask& task, const RuleArm& arm, int seed, const std::string& pretrained);

/// The metric of the last validation. RuntimeFailure naming the cell where it has none.
double final_metric(const results::CellRecord& record, const std::string& metric);

/// What a rule may ask for of an arm: its retention, the metric above chance over that of the dense arm, mean over the tasks that count.
struct Retention {
  std::string symbol, arm;
};

/// A claim on retentions: data, but for its clauses and constants, which come with `claim.rule`. The arms' first is the dense one. Every rule says NOT DECIDABLE where fewer than three
/// tasks count. Registers it.
struct MetricClaim {
  Claim claim;
  FineTuning tuning;
  std::vector<RuleArm> arms;
  std::vector<Retention> retentions;
};
bool register_metric_claim(MetricClaim of, std::source_location where = std::source_location::current());

}  // namespace thinwire::claims
