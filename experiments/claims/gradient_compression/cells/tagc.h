// TAGC as arms of a comparison, and a miniature of its authors' set-up whose steps are timed: two replicas that shard everything and communicate in each micro-step, 1/50 of the script's parameters,
// 1/50 of its links' rates, and passes of 50 and 100 ms stated (a GeForce 3080 at about 20 TFLOP/s: derived), so that transfers and passes take what theirs took. The codec is this machine's: where its
// time is more or less than 1/50 of a GPU's, so is what it costs; the tables say how long it takes.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/context.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims::gradient_compression {

/// Which matrices, how many elements per counter, bits of the index per element. `hidden`: of the model, whose MLPs alone have matrices of 4 hidden^2 elements.
struct TagcSetting {
  bool all_layers = false;
  int ratio = 2, bits = 1;
  bool ladder = false;  ///< TAGC's ladder of thresholds in place of the exact quantile
};
RuleArm tagc(const TagcSetting& setting, std::int64_t hidden);
/// What the authors' script runs, but for the OR of its index.
constexpr TagcSetting tagc_release = {};
constexpr TagcSetting tagc_smallest = {.all_layers = true, .ratio = 4};  ///< the fewest bytes of those that are timed

struct TimedArm {
  std::vector<double> step_ms;
  std::vector<double> run_ms;  ///< typical step of each repetition
  double codec_ms = 0;  ///< on gradients, of a step, mean over ranks and repetitions
  double typical_ms() const;
};

/// Steps by link, then by arm: FSDP, the settings of TAGC from the release on, last FSDP whose gradients cost nothing.
struct TagcSteps {
  std::vector<RuleArm> arms;
  std::vector<double> gbps;  ///< as stated, before the scaling
  std::vector<std::vector<TimedArm>> of;
  std::string untrusted;     ///< why a link was not measured well; empty: all were

  std::size_t arm(const TagcSetting& setting) const;
  const std::vector<TimedArm>& at(double gbps) const;
};
/// Repetitions as the context says.
TagcSteps tagc_steps(JudgeContext& context);
/// Settings and arms of such steps.
Rule tagc_steps_rule();
/// Steps, exposed synchronisation and codec time, by link.
std::vector<Table> tables_of(const TagcSteps& steps);

/// What the synchronisation of gradients adds to a step.
double exposed_ms(const std::vector<TimedArm>& of_link, std::size_t arm);
/// The part of FSDP's exposed synchronisation that an arm does not have, a value per repetition, and their 95 % interval.
Interval saved_of(const std::vector<TimedArm>& of_link, std::size_t arm);
/// How many more steps in the same time: T_FSDP / T_arm - 1, with the interval of the shift between the two.
Interval gain_of(const TimedArm& fsdp, const TimedArm& arm);

}  // namespace thinwire::claims::gradient_compression
