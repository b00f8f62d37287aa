#include "models/tasks/text_task.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/joined.h"

namespace thinwire {
namespace {

std::map<std::string, TextTask>& registry() {
  static std::map<std::string, TextTask> all;
  return all;
}

/// The finite number that a whole field is.
std::optional<double> number(std::string_view field) {
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc() && end == field.data() + field.size() && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string shown(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  return text.back() == '.' ? text + "0" : text;
}

}  // namespace

Labels class_labels(std::vector<std::string> names) {
  Labels labels;
  labels.classes = static_cast<int>(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) labels.wanted += (i == 0 ? "'" : i + 1 == names.size() ? " or '" : ", '") + names[i] + "'";
  labels.value = [names = std::move(names)](std::string_view field) -> std::optional<double> {
    const auto found = std::find(names.begin(), names.end(), field);
    return found == names.end() ? std::nullopt : std::optional(static_cast<double>(found - names.begin()));
  };
  return labels;
}

Labels score_labels(double low, double high) {
  return {0,
          [=](std::string_view field) {
            const auto value = number(field);
            return value && *value >= low && *value <= high ? value : std::nullopt;
          },
          "a number from " + shown(low) + " to " + shown(high)};
}

Labels floored_score_labels(int classes) {
  Labels labels = score_labels(0, classes);
  labels.classes = classes;
  labels.value = [score = labels.value, classes](std::string_view field) -> std::optional<double> {
    const auto value = score(field);
    return value ? std::optional(std::min(std::floor(*value), static_cast<double>(classes - 1))) : std::nullopt;
  };
  return labels;
}

RegisterTextTask::RegisterTextTask(TextTask task) {
  const std::string name = task.name;
  TW_ASSERT(registry().emplace(name, std::move(task)).second, "two tasks of one name");
}

std::vector<TextTask> text_tasks() {
  std::vector<TextTask> all;
  for (const auto& [name, task] : registry()) all.push_back(task);
  return all;
}

TextTask text_task(const std::string& name) {
  const auto found = registry().find(name);
  if (found != registry().end()) return found->second;
  throw UsageError("there is no task '" + name + "'; there is " + joined_keys(registry()));
}

}  // namespace thinwire
