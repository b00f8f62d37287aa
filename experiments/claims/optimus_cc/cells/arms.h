// The training arms of Optimus-CC's claims of quality, in the profile `tiny` (papers/optimus_cc.md section 9): GPT of 4 layers, hidden
// 128, 4 heads, sequences of 64 bytes, micro-batches of 8, P = 4, D = 2 with M = 4 per replica. Every arm is a cell of train_gpt;
// arms of one seed share initial weights and the order of the data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/claims/interval.h"

namespace thinwire::claims::optimus_cc {

inline constexpr int stages = 4, replicas = 2, micro_batches = 4, layers = 4;
inline constexpr std::int64_t hidden = 128, seq = 64, micro_batch = 8;
inline constexpr int boundary_rank = 2, gradient_rank = 16;  ///< 512 x 128 at rank 2: 51 to 1; gradients about 4 to 1
inline constexpr double delta = 0.02;  ///< nats per token: "no loss of quality"
inline constexpr double eps = 0.005;   ///< nats per token: worth naming

struct Arm {
  std::string name;                             ///< the cell's `plan`
  std::map<std::string, std::string> settings;  ///< options of train_gpt beside those of the profile
};

Arm dense();
/// Lazy error propagation: without; the leftover of a mini-batch carried into the next one, as the released code does; dropped.
enum class Lep { off, carry, drop };
/// Low-rank codec on all backward messages between stages, or on those of the epilogue alone.
Arm backward(int rank, Lep lep, bool epilogue_only);
/// The arm with its backward messages dense in the first tenth of the steps (the paper's scripts have no such warm-up).
Arm warmed_up(Arm arm, int steps);
/// PowerSGD with error feedback on the gradients of the first `count` stages.
Arm selective(int count, int rank);
/// Everything at once without care: all backward messages without lazy error propagation, all gradients without error feedback.
Arm naive(int rank, int dp_rank);
/// CB+FE+SC as the paper stacks them: epilogue-only with lazy error propagation, fused embedding, 3 of 4 stages.
Arm full_stack(Lep lep = Lep::carry);

/// Final validation losses of seeds 1 .. `seeds`, nats per token; one row per arm. All arms in one run of cells.
std::vector<std::vector<double>> losses(JudgeContext& context, const std::vector<Arm>& arms, int seeds);
/// Of a seed that no comparison uses.
double pilot_loss(JudgeContext& context, const Arm& arm);

/// The controls of section 9: empty when the baseline beats the text's unigram entropy by 0.5 nat and the paired differences scatter by
/// less than delta; else what is wrong. The second one, as written, would also call invalid what no scatter can hide (a loss of 1.2 nat,
/// interval 1.1 to 1.3, against a margin of 0.02): an interval that lies at least delta away from `margin` passes too (docs/claims.md).
std::string invalid_because(const std::vector<double>& baseline, const Interval& difference, double margin);
/// Whether only that second way let the control pass; then a reason says so.
std::string remark_on_scatter(const Interval& difference);

/// Losses by arm and seed, and validation loss over the steps (means over seeds), for figures.
std::vector<Table> tables_of(JudgeContext& context, const std::vector<Arm>& arms, int seeds);

}  // namespace thinwire::claims::optimus_cc
