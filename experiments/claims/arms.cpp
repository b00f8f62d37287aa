#include "experiments/claims/arms.h"

#include <algorithm>
#include <map>

namespace thinwire::claims {
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

}  // namespace thinwire::claims
