// What rules of this page share beside their arms.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/claims/arms.h"
#include "experiments/claims/claim.h"

namespace thinwire::claims::tensor_parallel {

/// "4, 8, 16".
std::string list_of(const std::vector<double>& values);

inline constexpr double fewer = 0.05;  ///< of the elements: a smaller saving is not worth naming (C5)
/// The rule of C5, counted and by formulas: 3-D receives less than 2-D and 2-D less than 1-D. `cube` says what the first ratio is.
Rule order_rule(std::map<std::string, std::string> settings, std::vector<RuleArm> arms, const std::string& cube);
/// How it was before.
PastChange order_was_thin();

}  // namespace thinwire::claims::tensor_parallel
