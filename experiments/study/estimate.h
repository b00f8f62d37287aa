// How long cells will take: from what was measured in this folder, else from the study's word.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "experiments/study/expand.h"

namespace thinwire::sweep {

class Estimates {
 public:
  /// Reads the journals of `out`: a launch's monotonic time over the cells it finished, calibrations and failures included. Cells of other
  /// studies in the folder count as well, by the program, link and ranks of their launch.
  Estimates(std::span<const PlannedCell> cells, const std::string& out);
  /// Expected seconds of the cell: the mean over finished cells of its program, link and ranks, else of its program and link, else the
  /// study's `minutes`, else nothing.
  std::optional<double> seconds_of(const PlannedCell& cell) const;

 private:
  struct Pace {
    double seconds = 0;
    std::size_t cells = 0;
  };
  std::map<std::tuple<std::string, std::string, int>, Pace> paces_;  ///< by program, link, ranks
};

/// ranks x seconds / 3600 / cores of a node: the share of a node's time that a cell is worth.
double node_hours(const PlannedCell& cell, double seconds, int cores_per_node);

}  // namespace thinwire::sweep
