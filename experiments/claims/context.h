// What a judgement may use: how much it may cost, a folder, and cells.
#pragma once

#include <string>

#include "experiments/claims/cells.h"
#include "experiments/claims/claim.h"

namespace thinwire::claims {

class JudgeContext {
 public:
  JudgeContext(Profile under, std::string folder, CellRunner& runner) : profile(under), out(std::move(folder)), cells(runner) {}

  const Profile profile;
  const std::string out;  ///< result folder of the claims; a judgement may keep files in out + "/" + its id
  CellRunner& cells;

  /// Steps of a training arm and seeds of a paired comparison before they are doubled (optimus_cc.md section 9, profile `tiny`).
  int steps() const { return profile == Profile::full ? 1000 : profile == Profile::standard ? 300 : 10; }
  int seeds() const { return profile == Profile::full ? 10 : profile == Profile::standard ? 5 : 2; }
};

}  // namespace thinwire::claims
