#include "experiments/claims/tensor_parallel/cells/arms.h"

#include <cstdio>

namespace thinwire::claims::tensor_parallel {

std::string list_of(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    char number[32];
    std::snprintf(number, sizeof number, "%g", value);
    text += (text.empty() ? "" : ", ") + std::string(number);
  }
  return text;
}

Rule order_rule(std::map<std::string, std::string> settings, std::vector<RuleArm> arms, const std::string& cube) {
  return {.settings = std::move(settings),
          .arms = std::move(arms),
          .quantities = {{"cube", cube}, {"square", "the same of 2-D over 1-D"}},
          .constants = {{"even", 1, "as many"}, {"fewer", fewer, "of the elements: a smaller saving is not worth naming"}},
          .clauses = {{Verdict::confirmed, "cube <= even - fewer && square <= even - fewer"}, {Verdict::direction_only, "cube < even && square < even"}},
          .otherwise = Verdict::not_reproduced,
          .smallest_effect = "fewer"};
}

PastChange order_was_thin() {
  return {"2026-11-22", "CONFIRMED asks for 5 % fewer elements, less is DIRECTION ONLY; it was CONFIRMED, thin from a ratio of 0.9, for any strict order",
          "a saving of 4 % is no effect worth naming; the numbers were known"};
}

}  // namespace thinwire::claims::tensor_parallel
