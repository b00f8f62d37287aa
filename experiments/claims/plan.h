// What a run of claims would measure, before anything starts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/claims/context.h"

namespace thinwire::claims {

/// Seconds that a cell takes: as long as the same cell took in a collected file; else what its claim says; else the median over cells of its program on so many ranks, on its link where there are such,
/// per step where it is a training.
class CellTimes {
 public:
  CellTimes() = default;
  explicit CellTimes(const std::map<std::string, results::CellRecord>& measured);
  /// NaN where no such cell was measured.
  double seconds(const CellRequest& request) const;
  void add(const CellTimes& other);

 private:
  struct Measured {
    std::string link;
    double seconds, steps;  ///< steps 0: no training
  };
  std::map<std::string, double> by_id_;
  std::map<std::pair<std::string, int>, std::vector<Measured>> by_program_;  ///< and ranks
};

struct ClaimPlan {
  std::string id;
  PlannedWork work;
  bool complete = true;   ///< false: more seeds follow where the rule stays INCONCLUSIVE
  int later = 0;          ///< cells that follow, as PlannedWork::later; those of several claims for the first of them
  double seconds = 0;     ///< of all of these cells whose time is known
  int without_time = 0;   ///< cells whose time nobody measured
};

/// What a run of these claims would measure next, by the steps that it takes itself. A cell that several claims share is planned once, for the first of
/// them. Refused as a run would be, but for cells and kept numbers of another build: these are counted.
std::vector<ClaimPlan> plan_claims(const std::vector<const Claim*>& claims, JudgeContext& context, const CellTimes& times);
/// A line per claim with something to measure, and the sum.
std::string to_text(const std::vector<ClaimPlan>& plans);
/// The commands of the cells, a line each, behind a comment line for each claim: what repeats one of them by hand, in the folder of the claims (paths of settings are relative to it).
std::string commands_of(const std::vector<ClaimPlan>& plans);

}  // namespace thinwire::claims
