// Arms of a rule from the cells that are run for them, so that both say the same.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/cells.h"
#include "experiments/claims/claim.h"

namespace thinwire::claims::optimus_cc {

/// A cell of an arm, under the arm's name; of several that differ in their seed alone, any.
struct NamedRequest {
  std::string name;
  CellRequest request;
};

/// Program, ranks, link and options of a cell as settings, without the seed and the plan's name.
std::map<std::string, std::string> settings_of(const CellRequest& request);
/// Adds the arms; what all of them share goes to the rule's settings.
void add_arms(Rule& rule, const std::vector<NamedRequest>& arms);

/// "min(a.low, b.low)".
std::string of_each(const std::string& function, const std::vector<std::string>& symbols, const std::string& part = "");

/// The control of scatter, which claims got when their results were there.
PastChange one_control();

/// "0.1" of 0.1: settings made of numbers.
std::string digits(double value);

}  // namespace thinwire::claims::optimus_cc
