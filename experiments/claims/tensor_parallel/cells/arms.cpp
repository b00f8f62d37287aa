#include "experiments/claims/tensor_parallel/cells/arms.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace thinwire::claims::tensor_parallel {
namespace {

std::map<std::string, std::string> settings_of(const CellRequest& request) {
  std::map<std::string, std::string> settings = {{"program", request.program}, {"ranks", std::to_string(request.ranks)}, {"link", request.link}};
  for (const auto& [name, value] : request.parameters.values()) settings[name] = results::to_text(value);
  return settings;
}

}  // namespace

Rule with_arms(Rule rule, const std::vector<NamedRequest>& arms) {
  std::vector<RuleArm> all;
  for (const NamedRequest& arm : arms) all.push_back({arm.name, settings_of(arm.request)});
  const std::map<std::string, std::string> first = all.front().settings, stated = rule.settings;
  for (const auto& [name, value] : first) {
    const auto same = [&](const RuleArm& arm) {
      const auto found = arm.settings.find(name);
      return found != arm.settings.end() && found->second == value;
    };
    if (!stated.contains(name) && std::all_of(all.begin(), all.end(), same)) rule.settings[name] = value;
  }
  for (RuleArm& arm : all) {
    std::erase_if(arm.settings, [&](const auto& setting) { return rule.settings.contains(setting.first); });
    rule.arms.push_back(std::move(arm));
  }
  return rule;
}

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
