// Several cells at once on one machine: for numbers that do not depend on what else runs, losses above all.
#pragma once

#include <span>

#include "experiments/run/runner.h"

namespace thinwire::sweep {

/// Runs what is missing of `cells` in up to `workers` processes of this program, each taking the next cell that no other has begun or leased; every cell is a launch
/// of its own, and a cell that fails is not tried by another worker. Returns when all are done or a signal ended them; `report.seconds` stays empty. A cell that a dead worker left is run
/// by the caller's next run_cells. The caller holds the folder's lock. Throws as run_cells where a worker failed.
RunReport run_side_by_side(std::span<const PlannedCell> cells, const RunOptions& options, int workers);

}  // namespace thinwire::sweep
