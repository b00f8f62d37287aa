// What a runner that is not alone with its result folder and its machine adds to a run: leases of cells, and a queue around it.
#pragma once

#include <functional>
#include <vector>

#include "experiments/study/expand.h"

namespace thinwire::sweep {

struct RunHooks {
  /// Sees the cells that are to run and returns those that this run may have; empty: all.
  std::function<std::vector<PlannedCell>(std::vector<PlannedCell>)> lease = {};
  /// Called at every look at a launch (about 20 ms); false ends the run like SIGTERM: the leases were lost.
  std::function<bool()> keep_alive = {};
  /// Asked when a launch ended badly. True: it was ended together with this runner (a queue cancels the job); nobody is to blame and
  /// the run ends like by SIGTERM.
  std::function<bool()> ended_from_outside = {};
  /// Seconds a launch gets after SIGUSR1 to save its state and end.
  double stop_grace = 60;
};

}  // namespace thinwire::sweep
