// Runs what is missing of a study: one launch after the other, journal by journal.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "experiments/sweep/launcher.h"
#include "experiments/sweep/summary.h"

namespace thinwire::sweep {

struct RunOptions {
  Places places;
  std::set<results::Status> redo = {results::Status::failed, results::Status::timeout,
                                    results::Status::skipped};
  int max_failures = 0;  ///< stop after this many FAILED or TIMEOUT cells; 0: never
};

struct RunReport {
  Seconds seconds;
  std::size_t ran = 0;   ///< cells that got a new record
  int signal = 0;        ///< SIGINT or SIGTERM that ended the run early
  bool stopped = false;  ///< by max_failures
};

/// Every cell without a finished record (or with a status in `redo`) is run; cells that share a launch run in
/// one mpirun. A cell that fails, hangs or takes its launch down gets a FAILED or TIMEOUT row and the rest of
/// the launch starts again without it. The caller holds the folder's lock. Throws RuntimeFailure when results
/// cannot be written (disk full); what is finished stays.
RunReport run_cells(std::span<const PlannedCell> cells, std::span<const CellState> states,
                    const RunOptions& options);

}  // namespace thinwire::sweep
