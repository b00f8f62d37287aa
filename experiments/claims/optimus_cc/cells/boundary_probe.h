// What the claims about the last boundary's errors (C10, C11, C16) look at: one trained model per seed, in one process, profile `tiny`
// (docs/papers/optimus_cc.md, "How training claims are judged") with D = 1, M = 8, all backward messages of rank 2 under lazy error
// propagation. Numbers are kept in the result folder by seed, so a seed is trained once for all three claims.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "experiments/claims/context.h"

namespace thinwire::claims::optimus_cc {

inline constexpr std::array probe_percent = {10, 50, 100};  ///< of the training, where it is looked at
inline constexpr int probe_mini_batches = 50;               ///< at each of them, with frozen weights
inline constexpr int probe_sends = 200;                     ///< at each of them, with and without reuse of Q
inline constexpr int probe_stages = 4;
inline constexpr int probe_boundary = 3;                    ///< layer in front of which the last of four stages begins

/// C10. e: error of a message; d: difference of an activation between this micro-batch and the next of the same mini-batch.
struct ErrorPair {
  double cosine = 0;                      ///< of e and d
  double mean_error = 0, mean_difference = 0;
  double error_ratio = 0, difference_ratio = 0;  ///< |mean| / root mean square
};

/// What was seen of one seed's model at one point of its training.
struct Checkpoint {
  std::int64_t step = 0;
  /// By activation (probe_activations()), by pair.
  std::vector<std::vector<ErrorPair>> pairs;
  double control = 0;  ///< largest |cos(e, M) - ||e|| / ||M||| over messages
  /// C11. ||G_LEP - G_true|| / ||G_noLEP - G_true||, by matrix (probe_matrices()), by mini-batch.
  std::vector<std::vector<double>> gradient_error;
  /// C16. ||E|| / ||M|| by send: warm, cold under lazy error propagation, warm, cold without.
  std::array<std::vector<double>, 4> lost;
};

struct ProbedSeed {
  int seed = 0;
  double loss = 0, unigram = 0;  ///< training loss at the end, entropy of the text's bytes; nats per token
  std::vector<Checkpoint> checkpoints;
};

/// The first is the last stage's input; the others are inputs of layers of the stage before, where they have the boundary's shape.
const std::vector<std::string>& probe_activations();
struct ProbeMatrix {
  std::string name;
  int layer;
};
/// Weight matrices of the stages before the last.
std::vector<ProbeMatrix> probe_matrices();

/// Seeds 1 .. `seeds`: from the folder where they are kept, else trained (minutes each).
std::vector<ProbedSeed> probed_seeds(const JudgeContext& context, int seeds);

/// What the rules on these models share: settings, and UNSTABLE where a model ended above the text's unigram entropy, which asks for
/// learned_measure(). The rule's own quantities and clauses follow.
Rule probe_rule();
Measure learned_measure(const std::vector<ProbedSeed>& seeds);

}  // namespace thinwire::claims::optimus_cc
