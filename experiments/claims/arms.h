// Arms of a rule, filled from the requests that measure them: the rule cannot say other settings than those that run.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/cells.h"
#include "experiments/claims/rule/rule.h"

namespace thinwire::claims {

struct NamedRequest {
  std::string name;
  CellRequest request;
};
/// Program, ranks, link and options: what all requests share become settings of the rule, the others those of its arms. Settings that the
/// rule states already stay as they are, for all arms: "4, 8, 16" ranks.
Rule with_arms(Rule rule, const std::vector<NamedRequest>& arms);

}  // namespace thinwire::claims
