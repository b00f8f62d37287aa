// What a measurement may use: how much it may cost, how many seeds, a folder, and cells.
#pragma once

#include <string>

#include "experiments/claims/cells.h"
#include "experiments/claims/claim.h"

namespace thinwire::claims {

class JudgeContext {
 public:
  JudgeContext(Profile under, std::string folder, CellRunner& runner) : profile(under), out(std::move(folder)), cells(runner) {}

  const Profile profile;
  const std::string out;  ///< result folder of the claims; a measurement may keep files in out + "/" + its id
  CellRunner& cells;

  /// Seeds or repetitions to measure now (Claim::seeds); 1 for a claim that states none.
  int seeds() const { return seeds_; }
  void set_seeds(int seeds) { seeds_ = seeds; }

  /// Training steps of models that are only looked at (probes, identities); arms that are compared state their own.
  int steps() const { return profile == Profile::full ? 1000 : profile == Profile::standard ? 300 : 10; }

 private:
  int seeds_ = 1;
};

}  // namespace thinwire::claims
