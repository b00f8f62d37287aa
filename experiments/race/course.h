// A course: the model, text and batch that are raced on, the loss to reach, and the links; with it the entrants, training configurations of a few lines each. Read from TOML
// (docs/race.md).
#pragma once

#include <string>
#include <vector>

#include "results/cell.h"

namespace thinwire::race {

/// Where the learning rate of every run ends, as a part of its peak (docs/papers/low_communication.md, "Trainings"). One end for all rates would bend each one's cosine in another way.
inline constexpr double least_rate = 0.1;

/// What an entrant changes of the course's settings: options of train_gpt. The first one of a course is the baseline.
struct Entrant {
  std::string name;
  results::Parameters settings;
  double rate = 0;    ///< learning rate chosen before, over `horizons`: nothing is tuned; 0: tuned here
  int horizons = 1;         ///< of its race runs; 1 for the baseline, whose runs the horizon is the length of
  double step_seconds = 0;  ///< of its loss runs where they take longer or less long than the baseline's; for `race plan`
  std::vector<int> seeds = {};  ///< its own instead of the course's: the baseline once more, as a control; compared without pairs
  std::string where;  ///< file:line
};

/// How a kind of run is started: ranks, and options of train_gpt for all entrants.
struct RunShape {
  int ranks = 1;
  results::Parameters parameters;
  double seconds = 0;  ///< measured beforehand, for `race plan`: of a step that is trained (step_seconds), of a timed cell (cell_seconds); 0: not known

  /// What an entrant's runs of this kind are started with, apart from what the race states.
  results::Parameters with(const Entrant& entrant) const;
};

struct Course {
  std::string name, description;
  int horizon = 0;             ///< steps of a run, over which the learning rate rises and falls to least_rate of its peak; target and rates belong to it
  int longest = 4;             ///< horizons that a run may be stretched over until an entrant counts as not arriving
  int validate_every = 0;      ///< steps between validations, of which the first at or below the target ends the race
  double target_at = 0.9;      ///< the target is the baseline's mean validation loss at this part of the horizon
  double target = 0;           ///< nats per token, stated beforehand; 0: the baseline's, by target_at
  double warmup = 0.1;         ///< part of a run over which the learning rate rises
  std::vector<double> rates;   ///< learning rates that every entrant is tried at, rising
  int tuning_seed = 0;         ///< of runs that choose a rate; none of `seeds`
  std::vector<int> seeds;      ///< of the race: initial weights and order of the data, the same for all entrants
  std::vector<std::string> links;
  int windows = 3;             ///< timed runs per entrant and link; from three on, and unless they are paired, the last three must agree
  bool pair_windows = false;   ///< against the baseline windows of one round are paired: all of them count, and none is added
  bool midway = true;          ///< timed runs begin with the state in the middle of a loss run; false: with the initial weights
  RunShape loss, time;         ///< runs that are trained to the target; runs whose steps are timed
  std::vector<Entrant> entrants;

  const Entrant& baseline() const { return entrants.front(); }
  /// Steps of the longest run: a horizon is doubled while `longest` allows it.
  int longest_run() const;
  const std::vector<int>& seeds_of(const Entrant& entrant) const { return entrant.seeds.empty() ? seeds : entrant.seeds; }
  /// All that the target depends on: the course without links, windows, timed runs and entrants but the baseline, as canonical text.
  std::string registered_text() const;
};

/// UsageError naming file and line: unknown or missing keys, numbers out of range, a horizon that validations do not divide, entrants of one name, an entrant that sets what the
/// course or the race itself sets.
Course read_course(const std::string& path);
/// Adds the [[entrant]] tables of another file. UsageError as above.
void add_entrants(Course& course, const std::string& path);

}  // namespace thinwire::race
