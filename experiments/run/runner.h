// Runs what is missing of a study: one launch after the other, journal by journal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experiments/run/failure_streak.h"
#include "experiments/run/launcher.h"
#include "experiments/run/run_hooks.h"
#include "experiments/study/selection.h"
#include "experiments/study/summary.h"

namespace thinwire::sweep {

struct RunOptions {
  RunPaths paths;
  Choice choice;                         ///< which cells run
  int retries = 0;                       ///< a FAILED or TIMEOUT cell gets this many further attempts
  int max_failures = 20;                 ///< stop after this many FAILED or TIMEOUT cells in a row; 0: never
  IsAnswer is_answer = {};               ///< those that do not count among them; empty: all count
  std::optional<std::uint64_t> shuffle;  ///< seed of a random order; empty: the order of the study
  RunHooks hooks;                        ///< of a runner that is not alone
};

struct RunReport {
  Seconds seconds;
  int signal = 0;              ///< SIGINT, SIGTERM or SIGUSR1 that ended the run early
  bool stopped = false;        ///< by max_failures
  bool asked_to_stop = false;  ///< a program ended early on request (ExitCode::stopped) and keeps what it needs to go on
};

/// Every cell that `options.choice` names is run; cells that share a launch run in one start of their program. A cell that fails,
/// hangs or takes its launch down gets a FAILED or TIMEOUT row and the rest of the launch starts again without it; with `retries`
/// such cells start again, in launches of their own, after the rest of their launch. The caller holds the folder's lock. Throws
/// RuntimeFailure when results cannot be written (disk full); what is finished stays.
RunReport run_cells(std::span<const PlannedCell> cells, std::span<const CellState> states,
                    const RunOptions& options);

}  // namespace thinwire::sweep
