// A study written back as TOML.
#include <cstdio>

#include "experiments/study/study.h"

namespace thinwire::sweep {
namespace {

std::string quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04X", static_cast<unsigned>(c));
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string toml_of(const ParameterValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? quoted(*text) : results::to_text(value);
}

std::string list_of(const std::vector<ParameterValue>& values) {
  std::string list;
  for (const ParameterValue& value : values) list += (list.empty() ? "[" : ", ") + toml_of(value);
  return list + "]";
}

void add_line(std::string& text, const std::string& key, const std::string& value) { text += key + " = " + value + "\n"; }

std::string inline_table(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters.values()) text += (text.empty() ? "" : ", ") + quoted(name) + " = " + toml_of(value);
  return "{" + text + "}";
}

std::string inline_table(const Condition& condition) {
  std::string text;
  for (const auto& [name, values] : condition.allowed) text += (text.empty() ? "" : ", ") + quoted(name) + " = " + list_of(values);
  return "{" + text + "}";
}

void add_grid(std::string& text, const Grid& grid) {
  text += "\n[[grid]]\n";
  add_line(text, "name", quoted(grid.name));
  add_line(text, "program", quoted(grid.program));
  if (!grid.ranks.empty()) add_line(text, "ranks", quoted(grid.ranks));
  add_line(text, "omp_threads", std::to_string(grid.omp_threads));
  add_line(text, "timeout", results::to_text(grid.timeout));
  if (grid.minutes > 0) add_line(text, "minutes", results::to_text(grid.minutes));
  if (grid.memory_gib > 0) add_line(text, "memory_gib", results::to_text(grid.memory_gib));
  if (!grid.tags.empty()) add_line(text, "tags", list_of({grid.tags.begin(), grid.tags.end()}));
  if (!grid.fixed.values().empty()) text += "[grid.parameters]\n";
  for (const auto& [name, value] : grid.fixed.values()) add_line(text, quoted(name), toml_of(value));
  // Every axis as a zip, of one name or several: so links, seeds, axes and zips keep their order among each other.
  for (const Axis& axis : grid.axes) {
    text += "[[grid.zip]]\n";
    for (std::size_t k = 0; k < axis.names.size(); ++k) {
      std::vector<ParameterValue> values;
      for (const auto& point : axis.points) values.push_back(point[k]);
      add_line(text, quoted(axis.names[k]), list_of(values));
    }
  }
  for (const Condition& exclude : grid.excludes) {
    text += "[[grid.exclude]]\n";
    for (const auto& [name, values] : exclude.allowed) add_line(text, quoted(name), list_of(values));
  }
  for (const Override& entry : grid.overrides) {
    text += "[[grid.override]]\n";
    add_line(text, "when", inline_table(entry.when));
    add_line(text, "set", inline_table(entry.set));
  }
}

}  // namespace

std::string to_toml(const Study& study) {
  std::string text = "[study]\n";
  add_line(text, "name", quoted(study.name));
  if (!study.description.empty()) add_line(text, "description", quoted(study.description));
  for (const Grid& grid : study.grids) add_grid(text, grid);
  return text;
}

}  // namespace thinwire::sweep
