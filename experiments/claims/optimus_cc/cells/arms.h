// The training arms of Optimus-CC's claims of quality, in the profile `tiny` (docs/papers/optimus_cc.md, "How training claims are judged"):
// GPT of 4 layers, hidden 128, 4 heads, sequences of 64 bytes, micro-batches of 8, P = 4. Every arm is a cell of train_gpt; arms of one ground and seed
// share initial weights, the order of data and, in training, the dense steps before compression.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/claims/interval.h"
#include "experiments/claims/rule/rule.h"

namespace thinwire::claims::optimus_cc {

inline constexpr int stages = 4, layers = 4;
inline constexpr std::int64_t hidden = 128, seq = 64, micro_batch = 8;
inline constexpr int boundary_rank = 2, gradient_rank = 16;  ///< 512 x 128 at rank 2: 51 to 1; gradients about 4 to 1
/// Peak of the cosine for every arm; claim M4 asks whether it is the best for the arm without compression.
inline constexpr double learning_rate = 0.006;

/// `name`: the cell's `plan`; `settings`: options of train_gpt beside those of the ground.
using Arm = RuleArm;

/// What the arms of one comparison share. Grounds of one `replicas` see the same number of tokens, whatever M is.
struct Ground {
  int micro_batches = 8;          ///< M, of a step, in each pipeline: the epilogue has P / (2 M) of the backward messages
  bool in_training = false;       ///< compression begins after as many steps as it then lasts; else with the first step
  double rate = learning_rate;
  int width = hidden;             ///< of the model
  int lengthened = 1;             ///< this many times the steps
  int replicas = 1;               ///< D. One replica: one process codes what a pipeline's ranks would send. More: a rank for each stage of each
  int first_seeds = 3;            ///< how many are measured before the rule is asked

  int coded_steps() const { return replicas > 1 ? 300 * lengthened : 500 * 8 / micro_batches * lengthened; }
  int dense_steps() const { return in_training ? coded_steps() : 0; }
  int steps() const { return dense_steps() + coded_steps(); }
  int warmup_steps() const { return coded_steps() / 5; }  ///< of the learning rate, from the first step on
  std::string name() const;  ///< "M = 8, from scratch"
  std::vector<int> seeds() const { return first_seeds < 5 ? std::vector<int>{first_seeds, 5, 10} : std::vector<int>{first_seeds, 10}; }
};
Ground from_scratch(int micro_batches);
Ground in_training(int micro_batches);
/// Two pipelines, as what is done to gradients asks for.
Ground two_replicas();

Arm dense();
/// Lazy error propagation: without; the leftover of a mini-batch carried into the next one, as the released code does; dropped.
enum class Lep { off, carry, drop };
/// Low-rank codec on all backward messages between stages, or on those of the epilogue alone.
Arm backward(int rank, Lep lep, bool epilogue_only);
/// PowerSGD with error feedback on the gradients of the first `count` stages.
Arm selective(int count, int rank);
/// Everything at once without care: all backward messages without lazy error propagation, all gradients without error feedback.
Arm naive(int rank, int dp_rank);
/// CB+FE+SC as the paper stacks them: epilogue-only with lazy error propagation, fused embedding, 3 of 4 stages.
Arm full_stack(Lep lep = Lep::carry);
/// All arms that the profile `standard` compares on this ground, the dense one first. They are run together, side by side.
std::vector<Arm> arms_on(const Ground& ground);

/// Constants that several rules share.
Constant quality_margin();  ///< "margin": no loss of quality
Constant resolution();      ///< "resolution" of the control of scatter
Constant smallest_gain();   ///< "smallest": a gain worth naming

/// What all rules on paired arms have, the first one without compression: the ground, the arms, and the controls (docs/papers/optimus_cc.md, "How
/// training claims are judged"), which ask for what control_measures() returns. The rule's own clauses follow.
Rule training_rule(const Ground& ground, std::vector<Arm> arms);
/// Of losses() of the same arms.
std::vector<Measure> control_measures(JudgeContext& context, const Ground& ground, const std::vector<Arm>& arms, const std::vector<std::vector<double>>& losses);
/// What was changed in the rules of training claims when results were there.
std::vector<PastChange> changes_of_training();

/// Final validation losses of seeds 1 .. `seeds`, nats per token; one row per arm. All arms in one run of cells.
std::vector<std::vector<double>> losses(JudgeContext& context, const Ground& ground, const std::vector<Arm>& arms, int seeds);
/// Of the arm without compression and `seeds` seeds that no comparison uses, one row per ground. All in one run of cells.
std::vector<std::vector<double>> pilot_losses(JudgeContext& context, const std::vector<Ground>& grounds, int seeds);

/// Losses by arm and seed, and validation loss over the steps (means over seeds), for figures.
std::vector<Table> tables_of(JudgeContext& context, const Ground& ground, const std::vector<Arm>& arms, int seeds);

}  // namespace thinwire::claims::optimus_cc
