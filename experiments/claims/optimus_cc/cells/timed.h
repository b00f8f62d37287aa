// Timed arms of Optimus-CC's claims: train_gpt with stated compute times (every arm of a comparison waits equally long for its passes,
// so that differences are those of what travels), on a link with a rate. Each step's time is kept, and beside it what the step model says.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/claims/interval.h"

namespace thinwire::claims::optimus_cc {

struct TimedArm {
  std::string name;                             ///< the cell's `plan`
  std::string link;
  int replicas = 1;
  std::map<std::string, std::string> settings;  ///< options of train_gpt; they override those of the profile
};

/// Passes of a stage take `forward_us` and `backward_us`.
void state_passes(TimedArm& arm, double forward_us, double backward_us);

struct TimedStep {
  std::vector<double> step_ms;       ///< of all repetitions' steps, maximum over ranks
  double predicted_ms = no_number;   ///< step model, median over repetitions
  double codec_us = 0, messages = 0; ///< of coded pp_backward messages: codec work per message on both ends, and how many per step
  std::map<std::string, double> bytes, codec_ms;  ///< by class, busiest rank: sent per step, and codec work per step
};

/// Runs what is missing: P = 4, `repetitions` cells per arm that differ in the seed of their data. CellSkipped where one was not measured.
std::vector<TimedStep> timed_steps(JudgeContext& context, const std::vector<TimedArm>& arms, int repetitions);
/// The cell of a repetition, for a rule's arms (rule_arms.h).
CellRequest timed_request(const TimedArm& arm, int repetition = 0);

/// "powersgd:rank=2+lep" on backward messages, all or only the epilogue's.
void compress_backward(TimedArm& arm, const std::string& codec, bool epilogue_only);
/// Low rank with error feedback on the gradients of the first `count` stages; nothing for 0.
void compress_gradients(TimedArm& arm, int count, int rank);

}  // namespace thinwire::claims::optimus_cc
