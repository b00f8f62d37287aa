// The training arms of Optimus-CC's claims of quality, in the profile `tiny` (docs/papers/optimus_cc.md, "How training claims are judged"):
// GPT of 4 layers, hidden 128, 4 heads, sequences of 64 bytes, micro-batches of 8, P = 4, D = 2 with M = 4 per replica. Every arm is a cell
// of train_gpt; arms of one seed share initial weights and the order of the data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/claims/interval.h"
#include "experiments/claims/rule/rule.h"

namespace thinwire::claims::optimus_cc {

inline constexpr int stages = 4, replicas = 2, micro_batches = 4, layers = 4;
inline constexpr std::int64_t hidden = 128, seq = 64, micro_batch = 8;
inline constexpr int boundary_rank = 2, gradient_rank = 16;  ///< 512 x 128 at rank 2: 51 to 1; gradients about 4 to 1

/// `name`: the cell's `plan`; `settings`: options of train_gpt beside those of the profile.
using Arm = RuleArm;

Arm dense();
/// Lazy error propagation: without; the leftover of a mini-batch carried into the next one, as the released code does; dropped.
enum class Lep { off, carry, drop };
/// Low-rank codec on all backward messages between stages, or on those of the epilogue alone.
Arm backward(int rank, Lep lep, bool epilogue_only);
/// The arm with its backward messages dense in the first tenth of the steps (the paper's scripts have no such warm-up); how many that is,
/// at_steps() says.
Arm warmed_up(Arm arm);
/// The arm with its settings for so many steps.
Arm at_steps(Arm arm, int steps);
/// PowerSGD with error feedback on the gradients of the first `count` stages.
Arm selective(int count, int rank);
/// Everything at once without care: all backward messages without lazy error propagation, all gradients without error feedback.
Arm naive(int rank, int dp_rank);
/// CB+FE+SC as the paper stacks them: epilogue-only with lazy error propagation, fused embedding, 3 of 4 stages.
Arm full_stack(Lep lep = Lep::carry);

/// Constants that several rules share.
Constant quality_margin();  ///< "margin": no loss of quality
Constant resolution();      ///< "resolution" of the control of scatter
Constant smallest_gain();   ///< "smallest": a gain worth naming

/// What all rules on paired arms have, the first one without compression: the profile, the arms, and the controls (docs/papers/optimus_cc.md, "How
/// training claims are judged"), which ask for what control_measures() returns. The rule's own clauses follow.
Rule training_rule(std::vector<Arm> arms);
/// Of losses() of the same arms.
std::vector<Measure> control_measures(const std::vector<Arm>& arms, const std::vector<std::vector<double>>& losses);
/// How the control of scatter of training claims was changed when results were there.
std::vector<PastChange> changes_of_scatter();

/// Final validation losses of seeds 1 .. `seeds`, nats per token; one row per arm. All arms in one run of cells.
std::vector<std::vector<double>> losses(JudgeContext& context, const std::vector<Arm>& arms, int seeds);
/// Of a seed that no comparison uses.
double pilot_loss(JudgeContext& context, const Arm& arm);

/// Losses by arm and seed, and validation loss over the steps (means over seeds), for figures.
std::vector<Table> tables_of(JudgeContext& context, const std::vector<Arm>& arms, int seeds);

}  // namespace thinwire::claims::optimus_cc
