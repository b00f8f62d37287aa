#include "experiments/claims/optimus_cc/cells/rule_arms.h"

#include <algorithm>
#include <cstdio>

namespace thinwire::claims::optimus_cc {

std::map<std::string, std::string> settings_of(const CellRequest& request) {
  std::map<std::string, std::string> settings = {{"program", request.program}, {"ranks", std::to_string(request.ranks)}, {"link", request.link}};
  for (const auto& [name, value] : request.parameters.values())
    if (name != "seed" && name != "plan") settings[name] = results::to_text(value);
  return settings;
}

void add_arms(Rule& rule, const std::vector<NamedRequest>& arms) {
  std::vector<RuleArm> all;
  for (const NamedRequest& arm : arms) all.push_back({arm.name, settings_of(arm.request)});
  if (all.empty()) return;
  for (const auto& [name, value] : std::map(all.front().settings)) {
    const auto same = [&](const RuleArm& arm) {
      const auto found = arm.settings.find(name);
      return found != arm.settings.end() && found->second == value;
    };
    if (!std::all_of(all.begin(), all.end(), same)) continue;
    rule.settings[name] = value;
    for (RuleArm& arm : all) arm.settings.erase(name);
  }
  rule.arms.insert(rule.arms.end(), all.begin(), all.end());
}

std::string of_each(const std::string& function, const std::vector<std::string>& symbols, const std::string& part) {
  std::string text = function + "(";
  for (std::size_t i = 0; i < symbols.size(); ++i) text += (i == 0 ? "" : ", ") + symbols[i] + part;
  return text + ")";
}

PastChange one_control() {
  return {"2026-11-22", "an interval that is too wide beside its margin is INCONCLUSIVE, and a model that ends above the text's unigram entropy UNSTABLE", "one control of scatter and one meaning of each verdict for all claims"};
}

std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

}  // namespace thinwire::claims::optimus_cc
