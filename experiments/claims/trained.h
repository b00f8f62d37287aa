// Trainings that a claim compares: cells of train_gpt that share everything but what an arm does and the seed, told apart by the validation
// loss at their end. Arms of one seed share initial weights, the order of data and the validation set, so differences are paired.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/claims/context.h"
#include "experiments/claims/rule/rule.h"
#include "experiments/claims/text/text_entropies.h"

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
/// Steps to the first validation at or below a loss; NaN: none was.
double steps_to(double loss, const results::CellRecord& record);
std::vector<std::vector<double>> final_losses(const std::vector<std::vector<results::CellRecord>>& records);

/// What all rules on such arms have, the first one being the baseline: settings, arms, and two controls. The baseline has learned (it beats
/// the unigrams by the constant `learned`), else INVALID; no arm ended above the text's unigram entropy, but those that may (LossClaim), else UNSTABLE. The claim's own clauses follow.
Rule comparison_rule(const Comparison& comparison, std::vector<RuleArm> arms, const std::vector<std::string>& may_fail = {});
/// Of the text that these cells, by arm and seed, were trained on (text/text_entropies.h). Refused where they are of different texts, or nobody knows.
TextEntropies entropies_of_text(const std::vector<std::vector<results::CellRecord>>& records);
/// What these controls ask for: `baseline`, `worst`, `entropy`.
std::vector<Measure> comparison_controls(const std::vector<RuleArm>& arms, const std::vector<std::vector<double>>& losses, double entropy, const std::vector<std::string>& may_fail = {});
/// Losses by arm and seed, and validation loss over the steps (means over seeds), for figures.
std::vector<Table> comparison_tables(const Comparison& comparison, const std::vector<RuleArm>& arms, const std::vector<std::vector<results::CellRecord>>& records);

/// What claims about the gradients and the gathered weights of replicas train: a GPT of 4 layers, 128 wide, 2048 bytes of text a step, which `ranks` data-parallel ranks share.
/// The learning rate is the best one of a pilot of the dense arm.
Comparison on_replicas(std::string name, int ranks, int steps);

/// The smallest difference of such losses that is worth naming: above twice what two runs of one seed end apart that add the same numbers in another order. Pairs of a pilot (seeds 91 to 93, which no
/// comparison uses; docs/papers/sharded_compression.md) were 0.03 to 0.22 % apart, root mean square 0.18 %.
inline const Constant smallest_on_replicas{"smallest", 0.004, "of the baseline's loss: the smallest difference worth naming; runs that differ in rounding alone end 0.002 of it apart"};

/// What differences of losses are told in: parts of the baseline's mean loss, or nats per token.
enum class LossUnit { of_baseline, nats };

/// A sum of arms' final losses that a rule asks for, in its claim's unit: {{"TLq", 1}, {"TLq-HS", -1}} is what, or the part by which, TLq loses more. Paired over seeds.
struct LossDifference {
  std::string symbol;
  std::vector<std::pair<std::string, double>> terms;  ///< arm and factor; the factors add up to 0
};
/// The difference of two arms.
LossDifference loss_difference(const std::string& symbol, const std::string& arm, const std::string& from);

/// How an arm's setting is chosen before its seeds run: of `values` the one whose run of `seed`, which no verdict rests on, ends with the lowest validation loss. A run that diverges is not chosen.
struct Tuning {
  /// "learning-rate"; several at once: "learning-rate, weight-decay", with values "0.003, 0.1". "optimizer:rate" is the parameter `rate` of what the arm's setting `optimizer` ends with (of
  /// "adamw+diloco:inner_steps=30,rate=0.7" 0.7), which must stand there. A value of fewer parts leaves the last options as the arm has them. Empty: nothing is chosen.
  std::string option;
  std::map<std::string, std::vector<std::string>> values = {};  ///< by arm; arms that are not named keep their settings
  int seed = 101;
};

/// In words, for a rule.
std::string text_of(const Tuning& tuning);
/// The arms with what was chosen for them; `table` gets a row for each value that was tried. ArmDiverged where every value of an arm did.
std::vector<RuleArm> tuned(JudgeContext& context, const Comparison& comparison, std::vector<RuleArm> arms, const Tuning& tuning, Table& table);
/// An empty one of that.
Table table_of(const Tuning& tuning);

/// A claim on such differences alone: data, but for its clauses and constants, which come with `claim.rule`. Registers it.
struct LossClaim {
  Claim claim;             ///< id, statement, provenance, profile, seeds, figure; of its rule constants, scatter, clauses, smallest effect, otherwise
  Comparison comparison;
  std::vector<RuleArm> arms;  ///< the baseline first
  std::vector<LossDifference> differences;
  LossUnit unit = LossUnit::of_baseline;
  Tuning tuning = {};
  /// Symbol and arm: the rule asks for the number that its chosen value ends with ("0.5" of "adamw+local_sgd:rate=0.5").
  std::vector<std::pair<std::string, std::string>> chosen = {};
  /// What else is measured, once arms are chosen and trained, by arm and seed; its quantities come with `claim.rule`.
  std::function<void(JudgeContext&, const std::vector<RuleArm>&, const std::vector<std::vector<results::CellRecord>>&, Finding&)> more = {};
  /// Names of arms whose failing is the effect that the claim speaks of. A run of these that diverges, or ends above the text's unigram entropy, enters with that entropy as its loss: it lost at least this.
  /// The rule says so, and the reason names the runs. Any other arm that fails makes the claim UNSTABLE.
  std::vector<std::string> may_fail = {};
  /// Symbol and one of those arms: the rule asks for the number of its seeds that diverged.
  std::vector<std::pair<std::string, std::string>> diverged = {};
};
bool register_loss_claim(LossClaim of, std::source_location where = std::source_location::current());

}  // namespace thinwire::claims
