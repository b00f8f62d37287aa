// Arms of a rule, filled from the requests that measure them: the rule cannot say other settings than those that run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/claims/cells.h"
#include "experiments/claims/claim.h"
#include "experiments/claims/rule/rule.h"

namespace thinwire::claims::tensor_parallel {

struct NamedRequest {
  std::string name;
  CellRequest request;
};
/// Program, ranks, link and options: what all requests share become settings of the rule, the others those of its arms. Settings that the
/// rule states already stay as they are, for all arms: "4, 8, 16" ranks.
Rule with_arms(Rule rule, const std::vector<NamedRequest>& arms);

/// "4, 8, 16".
std::string list_of(const std::vector<double>& values);

inline constexpr double fewer = 0.05;  ///< of the elements: a smaller saving is not worth naming (C5)
/// The rule of C5, counted and by formulas: 3-D receives less than 2-D and 2-D less than 1-D. `cube` says what the first ratio is.
Rule order_rule(std::map<std::string, std::string> settings, std::vector<RuleArm> arms, const std::string& cube);
/// How it was before.
PastChange order_was_thin();

}  // namespace thinwire::claims::tensor_parallel
