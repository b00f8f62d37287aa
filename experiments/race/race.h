// The race itself: which runs are trained, in which order, and what follows from them. It asks for runs and does not know how they are made, so a test can answer with made-up curves.
//
// Every entrant is tuned alike, on a seed that does not race: all rates over half a horizon (and rates beyond while the best one lies at an edge), the best two over a whole one; the one
// that reaches the tuning target first is taken, else the one of the lower loss, whose run is then stretched to 2, 4, ... horizons until it reaches that. Over that many
// steps the entrant races with each seed. Its steps to the target are those of the first validation at or below it.
// An entrant that states a rate is not tuned, and a course that states a target has that one.
// Otherwise the target is the baseline's, tuned first: the mean over the seeds of its validation loss at `target_at` of the horizon. It is registered before another entrant runs. The tuning target
// is the baseline's loss at that point with the tuning seed: were it the mean, an entrant as good as the baseline would be stretched wherever that seed happens to be a hard one.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/race/course.h"

namespace thinwire::race {

inline constexpr double none = std::numeric_limits<double>::quiet_NaN();

struct LossRequest {
  const Entrant* entrant;
  double rate;
  int steps, seed;
};

struct Validation {
  int steps;     ///< done before it
  double loss;   ///< nats per token
};

struct LossRun {
  std::vector<Validation> curve;  ///< rising in steps
  double link_bytes = 0;          ///< of a step, all ranks, where several were trained
  bool diverged = false;

  /// The last loss; infinity for a run that diverged.
  double final_loss() const;
  /// Of the first validation at or below the target; none: NaN.
  double steps_to(double target) const;
  /// At the last validation not after so many steps.
  double loss_at(int steps) const;
};

/// A run of each request, in their order. May train several at a time.
using TrainRuns = std::function<std::vector<LossRun>(std::span<const LossRequest>)>;

struct TimedStep {
  std::vector<double> step_ms;  ///< mean step of each window, a whole number of rounds where replicas exchange every so many steps
  double link_bytes = none;     ///< of a step, all ranks
  std::string distrust;         ///< why these times say little; empty: they hold
};

struct Tried {
  double rate;
  int steps;
  double loss;  ///< final
};

/// What an entrant does on the course, links apart.
struct Performance {
  std::string entrant;
  double rate = none;
  int steps = 0;                      ///< of its race runs, a multiple of the horizon; 0: the tuning seed did not reach the target within the longest run, at `rate`
  std::vector<double> steps_to_target;  ///< by seed; NaN: not within `steps`. Empty: the tuning seed did not reach the target within the longest run
  std::vector<double> final_loss;     ///< by seed
  std::vector<Validation> curve;      ///< of the race runs, mean over those that did not diverge
  std::vector<Tried> tried;
  int arrived() const;
};

/// Chooses rate and horizon of an entrant on the tuning seed; `target` is the tuning target. NaN: the baseline, which is given its horizon.
Performance tune(const Course& course, const Entrant& entrant, double target, const TrainRuns& train);
/// Its race runs: fills in steps_to_target and final_loss. Nothing for an entrant whose tuning seed did not arrive.
void run_seeds(const Course& course, const Entrant& entrant, double target, Performance& performance, const TrainRuns& train);
/// The mean over seeds of the baseline's loss at `target_at`. RuntimeFailure where a seed diverged.
double target_of(const Course& course, const Performance& baseline, const TrainRuns& train);
/// What the tuning runs of the others have to reach: the baseline's loss at `target_at` with the tuning seed, or the target that the course states. RuntimeFailure where that run diverged.
double tuning_target_of(const Course& course, const Performance& baseline, const TrainRuns& train);

}  // namespace thinwire::race
