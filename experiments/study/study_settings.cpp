// Conditions of a study, and --set.
#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "experiments/study/study.h"
#include "results/files/tuned_products.h"

namespace thinwire::sweep {

bool Condition::matches(const Parameters& parameters) const {
  for (const auto& [name, values] : allowed) {
    const auto found = parameters.values().find(name);
    if (found == parameters.values().end()) return false;
    const std::string text = results::to_text(found->second);
    if (std::none_of(values.begin(), values.end(),
                     [&](const ParameterValue& v) { return results::to_text(v) == text; }))
      return false;
  }
  return true;
}

ParameterValue value_from_text(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  const char* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, integer);
      error == std::errc() && stop == end)
    return integer;
  double number = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, number);
      error == std::errc() && stop == end && number - number == 0)
    return number;
  return text;
}

void apply_product_library(Study& study, const std::string& choice) {
  if (choice.empty()) return;
  for (Grid& grid : study.grids) {
    const bool is_axis = std::any_of(grid.axes.begin(), grid.axes.end(), [](const Axis& axis) {
      return std::find(axis.names.begin(), axis.names.end(), results::product_library_parameter) != axis.names.end();
    });
    if (!is_axis && !grid.fixed.has(results::product_library_parameter)) grid.fixed.set(results::product_library_parameter, choice);
  }
}

void apply_setting(Study& study, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw UsageError("--set " + assignment + ": write it as name=value");
  const std::string name = assignment.substr(0, equals);
  const ParameterValue value = value_from_text(assignment.substr(equals + 1));
  std::vector<std::string> names;
  bool used = false;
  for (Grid& grid : study.grids) {
    for (const auto& [known, old] : grid.fixed.values()) names.push_back(known);
    if (grid.fixed.has(name)) {
      grid.fixed.set(name, value);
      used = true;
    }
    for (Axis& axis : grid.axes) {
      names.insert(names.end(), axis.names.begin(), axis.names.end());
      if (std::find(axis.names.begin(), axis.names.end(), name) == axis.names.end()) continue;
      if (axis.names.size() > 1)
        throw UsageError("--set " + assignment + ": `" + name + "` goes together with `" +
                         axis.names[axis.names[0] == name ? 1 : 0] +
                         "` in this study; choose points with --where instead");
      axis.points = {{value}};
      used = true;
    }
    for (Override& entry : grid.overrides)
      if (entry.set.has(name)) entry.set.set(name, value);
  }
  if (used) return;
  throw UsageError("--set " + assignment + ": no grid of the study has a parameter `" + name +
                   "`; did you mean `" + nearest_name(name, names.data(), names.data() + names.size()) +
                   "`?");
}

}  // namespace thinwire::sweep
