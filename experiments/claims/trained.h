// Trainings that a claim compares: cells of train_gpt that share everything but what an arm does and the seed, told apart by the validation
// loss at their end. Arms of one seed share initial weights, the order of data and the validation set, so differences are paired.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/context.h"
#include "experiments/claims/rule/rule.h"

namespace thinwire::claims {

/// What the arms of one comparison share.
struct Comparison {
  std::string name;  ///< for notes and tables: "M = 8, from scratch"
  CellRequest cell;  ///< of train_gpt, untimed: every option but the seed, the plan and what an arm states itself
};

/// The cell of one arm: its settings are options, its name is the plan.
CellRequest cell_of(const Comparison& comparison, const RuleArm& arm, int seed);
/// Seeds 1 .. `seeds`, arm by arm.
std::vector<CellRequest> cells_of(const Comparison& comparison, const std::vector<RuleArm>& arms, int seeds);
/// Records of such cells of `arms` arms, one row per arm, by seed. All in one run of cells.
std::vector<std::vector<results::CellRecord>> train(JudgeContext& context, const std::vector<CellRequest>& cells, std::size_t arms);

/// The last validation loss, nats per token. RuntimeFailure naming the cell where none was measured.
double final_loss(const results::CellRecord& record);
std::vector<std::vector<double>> final_losses(const std::vector<std::vector<results::CellRecord>>& records);

/// What all rules on such arms have, the first one being the baseline: settings, arms, and two controls. The baseline has learned (it beats
/// the unigrams by the constant `learned`), else INVALID; no arm ended above the text's unigram entropy, else UNSTABLE. The claim's own clauses follow.
Rule comparison_rule(const Comparison& comparison, std::vector<RuleArm> arms);
/// What these controls ask for: `baseline`, `worst`, `entropy`.
std::vector<Measure> comparison_controls(const std::vector<RuleArm>& arms, const std::vector<std::vector<double>>& losses);
/// Losses by arm and seed, and validation loss over the steps (means over seeds), for figures.
std::vector<Table> comparison_tables(const Comparison& comparison, const std::vector<RuleArm>& arms, const std::vector<std::vector<results::CellRecord>>& records);

}  // namespace thinwire::claims
