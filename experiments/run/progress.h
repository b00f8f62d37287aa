// Progress of a run on stderr: one line that renews itself on a terminal, else a line about every 5 seconds.
#pragma once

#include <map>
#include <span>
#include <string>

#include "core/clock.h"
#include "experiments/study/expand.h"

namespace thinwire::sweep {

class Progress {
 public:
  /// `todo`: the cells that will run; the rest of the study counts as done before.
  Progress(std::size_t already_done, std::span<const PlannedCell> todo);
  ~Progress();
  void launch_started(const Launch& launch);
  void cell_started(const PlannedCell& cell);
  /// `good`: neither FAILED nor TIMEOUT nor WRONG.
  void cell_ended(const PlannedCell& cell, bool good);
  /// A cell that ended badly gets another attempt: it counts as not done again.
  void cell_again(const PlannedCell& cell);
  /// Cheap; prints when it is time.
  void tick();
  /// Seconds until the end, from the mean of the finished cells of the same program and link; NaN at first.
  double eta_seconds() const;

 private:
  struct Pace {
    int todo = 0, done = 0;
    double seconds = 0;
  };
  Pace& pace_of(const PlannedCell& cell) { return paces_[{cell.program, cell.link}]; }
  void print(bool is_last);

  std::size_t before_, total_, done_ = 0, bad_ = 0, again_ = 0;
  std::map<std::pair<std::string, std::string>, Pace> paces_;
  std::string current_;
  Stopwatch since_start_, since_print_, since_cell_;
  bool terminal_;
};

}  // namespace thinwire::sweep
