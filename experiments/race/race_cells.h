// The race's runs as cells of train_gpt, run by the sweep's runner and kept in one folder: a race that was killed goes on, an entrant that is added later repeats nobody's runs.
#pragma once

#include "experiments/claims/cells.h"
#include "experiments/race/leaderboard.h"

namespace thinwire::race {

class RaceCells {
 public:
  RaceCells(const Course& course, claims::CellRunner& cells) : course_(course), cells_(cells) {}

  /// Untimed: runs of one rank are trained side by side. A run that diverges is a result; RuntimeFailure for any other that fails.
  std::vector<LossRun> train(std::span<const LossRequest> requests);
  /// Steps of every entrant on every link, window by window, so that what disturbs the machine for a while meets all alike; disturbed cells are repeated by the rule of claims.
  /// Times that were not measured well (links that are not to be trusted, disturbed machines) say so.
  Times time(const std::vector<Performance>& performances);

  claims::CellRequest request_of(const LossRequest& request) const;
  claims::CellRequest request_of(const Entrant& entrant, const std::string& link, double rate, int window) const;

 private:
  const Course& course_;
  claims::CellRunner& cells_;
};

}  // namespace thinwire::race
