// The race's runs as cells of train_gpt, run by the sweep's runner and kept in one folder: a race that was killed goes on, an entrant that is added later repeats nobody's runs.
#pragma once

#include "experiments/claims/cells.h"
#include "experiments/race/leaderboard.h"

namespace thinwire::race {

/// A timed run of an entrant on a link.
struct Window {
  const Performance* performance;
  std::string link;
  int number;
};

class RaceCells {
 public:
  RaceCells(const Course& course, claims::CellRunner& cells) : course_(course), cells_(cells) {}

  /// Untimed: runs of one rank are trained side by side. A run that diverges is a result; RuntimeFailure for any other that fails. UsageError for a race run of the baseline at another
  /// learning rate than the one under which the folder's target was registered: tuning that is made again may choose another, and the target would be another run's.
  std::vector<LossRun> train(std::span<const LossRequest> requests);
  /// Steps of every entrant on every link, window by window, so that what disturbs the machine for a while meets all alike; disturbed cells are repeated by the rule of claims.
  /// Where the last three windows lie further apart than 1 %, up to three more are measured, and the last ones count; of a course that pairs them all count. Runs begin with the state that the entrant's first race run kept half-way, or
  /// the tuning seed's longest one where it was not raced (where the folder has it no more and a window is to run, half of that run is made again), so that payloads of variable size are those of
  /// the middle and nobody is timed in a warm-up; afterwards these states are removed.
  /// Times that were not measured well (links that are not to be trusted, disturbed machines, windows that do not agree, initial weights for want of a run that did not diverge) say so.
  Times time(const std::vector<Performance>& performances);

  claims::CellRequest request_of(const LossRequest& request) const;
  claims::CellRequest request_of(const Performance& performance, const std::string& link, int window) const;
  /// The race runs whose states these windows will begin with and the folder lacks, each once. Which windows run is for the runner to say, by its plan: also those that were SKIPPED, or measured
  /// by another build.
  std::vector<LossRequest> missing_states(std::span<const Window> windows) const;

 private:
  const Entrant& entrant_of(const Performance& performance) const;
  /// The run whose middle timed runs begin with, of an entrant that never arrives its longest tuning run; nothing where all of them diverged.
  std::optional<LossRequest> start_of(const Performance& performance) const;
  /// Whether its run keeps the state that it has half-way.
  bool is_start(const LossRequest& request) const;
  /// The same run up to there, which keeps the same state.
  claims::CellRequest half_of(const LossRequest& start) const;
  std::string kept_by(const claims::CellRequest& request) const;
  void require_registered_rate(const LossRequest& request) const;
  void provide_states(std::span<const Window> windows);
  void remove_states(const std::vector<Performance>& performances) const;
  const Course& course_;
  claims::CellRunner& cells_;
};

}  // namespace thinwire::race
