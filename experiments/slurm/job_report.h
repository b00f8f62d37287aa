// What the queue says of the cells that have no record, as lines under the table of `sweep status`.
#pragma once

#include <span>
#include <string>

#include "experiments/study/summary.h"

namespace thinwire::sweep {

struct JobCounts {
  int waiting = 0, running = 0;  ///< cells without a record, or to be measured again, whose jobs wait (also HELD) or run, or that a runner holds
  int lost = 0;                  ///< whose jobs are over: submit takes them again
  bool operator==(const JobCounts&) const = default;
};

/// Prints one line of counts and the reasons with theirs; nothing for cells that were never submitted.
JobCounts print_jobs(std::span<const PlannedCell> cells, std::span<const CellState> states, const std::string& out);

}  // namespace thinwire::sweep
