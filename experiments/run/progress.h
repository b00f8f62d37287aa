// Progress of a run on stderr: one line that renews itself on a terminal, else a line about every 5 seconds.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "experiments/study/expand.h"

namespace thinwire::sweep {

class Progress {
 public:
  /// `todo`: the cells that will run; the rest of the study counts as done before. `clock` gives monotonic seconds; tests play one.
  Progress(std::size_t already_done, std::span<const PlannedCell> todo, std::function<double()> clock = monotonic_seconds);
  ~Progress();
  void launch_started(const Launch& launch);
  void cell_started(const PlannedCell& cell);
  /// `good`: neither FAILED nor TIMEOUT nor WRONG.
  void cell_ended(const PlannedCell& cell, bool good);
  /// A cell that ended badly gets another attempt: it counts as not done again.
  void cell_again(const PlannedCell& cell);
  /// Cheap; prints when it is time.
  void tick();
  /// Seconds until the end; NaN until a cell has ended. A cell that is still to come takes the mean of the finished cells of its
  /// program, link and ranks; where there is none, of its program and link, else of its program, its link, and all. What the running
  /// cell has taken so far counts: below the mean it has the rest of it to go; beyond, as long again as it is late, and its class then
  /// counts it among its samples, so that the estimate grows with a slow cell and never stands still.
  double eta_seconds() const;

 private:
  struct Class {
    std::string program, link;
    int ranks = 0;
    auto operator<=>(const Class&) const = default;
  };
  struct Pace {
    int todo = 0, done = 0;
    double seconds = 0;
  };
  static double monotonic_seconds();
  static Class class_of(const PlannedCell& cell) { return {cell.program, cell.link, cell.ranks}; }
  double mean_seconds(const Class& of) const;
  void print(bool is_last);

  std::size_t before_, total_, done_ = 0, bad_ = 0, again_ = 0;
  std::function<double()> clock_;
  std::map<Class, Pace> paces_;
  std::optional<Class> running_;  ///< of the launch under way
  std::string current_;
  double start_, printed_, cell_start_;  ///< on `clock_`
  bool terminal_;
};

}  // namespace thinwire::sweep
