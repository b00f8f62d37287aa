#include "experiments/study/study_values.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/joined.h"

namespace thinwire::sweep {

std::string at(const std::string& file, const toml::node& node) {
  return file + ":" + std::to_string(node.source().begin.line);
}

std::vector<std::string> keys_in_order(const toml::table& table) {
  std::vector<std::pair<std::pair<unsigned, unsigned>, std::string>> found;
  for (const auto& [key, node] : table)
    found.push_back({{node.source().begin.line, node.source().begin.column}, std::string(key.str())});
  std::sort(found.begin(), found.end());
  std::vector<std::string> keys;
  for (auto& [position, key] : found) keys.push_back(std::move(key));
  return keys;
}

void require_known(const std::string& file, const toml::table& table, const std::string& section,
                   const std::vector<std::string>& known) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw UsageError(at(file, node) + ": unknown key `" + name + "` in " + section + "; did you mean `" +
                     nearest_name(name, known.data(), known.data() + known.size()) + "`? Valid: " + joined(known));
  }
}

ParameterValue scalar(const std::string& file, const toml::node& node, const std::string& name) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get();
  throw UsageError(at(file, node) + ": `" + name + "` must be text, a number or true/false");
}

std::vector<ParameterValue> list(const std::string& file, const toml::node& node, const std::string& name) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return {scalar(file, node, name)};
  if (array->empty())
    throw UsageError(at(file, node) + ": the axis `" + name + "` is empty; give it a value or remove it");
  std::vector<ParameterValue> values;
  for (const toml::node& element : *array) values.push_back(scalar(file, element, name));
  return values;
}

const toml::table& table_of(const std::string& file, const toml::node& node, const std::string& name) {
  if (const toml::table* table = node.as_table()) return *table;
  throw UsageError(at(file, node) + ": `" + name + "` must be a table");
}

std::vector<const toml::table*> tables_of(const std::string& file, const toml::node& node,
                                          const std::string& name) {
  std::vector<const toml::table*> tables;
  if (const toml::array* array = node.as_array())
    for (const toml::node& element : *array) tables.push_back(&table_of(file, element, name));
  else
    tables.push_back(&table_of(file, node, name));
  return tables;
}

std::string text_of(const std::string& file, const toml::table& table, const char* key) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return "";
  return results::to_text(scalar(file, *node, key));
}

double positive_of(const std::string& file, const toml::table& table, const char* key, double otherwise) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return otherwise;
  const double value = node->value_or(-1.0);
  if (!(value > 0 && value < 1e9)) throw UsageError(at(file, *node) + ": " + key + " must be a positive number");
  return value;
}

Parameters parameters_of(const std::string& file, const toml::table& table) {
  Parameters parameters;
  for (const auto& [key, node] : table)
    parameters.set(std::string(key.str()), scalar(file, node, std::string(key.str())));
  return parameters;
}

Condition condition_of(const std::string& file, const toml::table& table) {
  Condition condition;
  condition.where = at(file, table);
  for (const auto& [key, node] : table)
    condition.allowed[std::string(key.str())] = list(file, node, std::string(key.str()));
  if (condition.allowed.empty())
    throw UsageError(condition.where +
                     ": a condition without any parameter would hold for every cell; name one");
  return condition;
}

Axis zip_of(const std::string& file, const toml::table& table) {
  Axis axis;
  for (const std::string& name : keys_in_order(table)) {
    const std::vector<ParameterValue> values = list(file, *table.get(name), name);
    if (!axis.names.empty() && values.size() != axis.points.size())
      throw UsageError(at(file, *table.get(name)) + ": `" + name + "` has " + std::to_string(values.size()) +
                       " values but `" + axis.names.front() + "`, which goes together with it, has " +
                       std::to_string(axis.points.size()));
    axis.points.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) axis.points[i].push_back(values[i]);
    axis.names.push_back(name);
  }
  if (axis.names.empty()) throw UsageError(at(file, table) + ": a zip without any axis");
  return axis;
}

Axis seeds_of(const std::string& file, const toml::table& table) {
  Axis axis;
  const toml::node* seeds = table.get("seeds");
  const toml::node* repeat = table.get("repeat");
  if (seeds != nullptr && repeat != nullptr)
    throw UsageError(at(file, *repeat) + ": `repeat` and `seeds` both say which seeds to use; keep one");
  if (seeds != nullptr)
    for (const ParameterValue& seed : list(file, *seeds, "seeds")) {
      if (!std::holds_alternative<std::int64_t>(seed)) throw UsageError(at(file, *seeds) + ": seeds must be whole numbers");
      axis.points.push_back({seed});
    }
  if (repeat != nullptr) {
    const toml::table& asked = table_of(file, *repeat, "repeat");
    require_known(file, asked, "repeat", {"seeds", "first"});
    const toml::node* count = asked.get("seeds");
    const toml::node* start = asked.get("first");
    const std::int64_t many = count == nullptr ? 0 : count->value_or(std::int64_t{0});
    const std::int64_t first = start == nullptr ? 1 : start->value_or(std::int64_t{-1});
    if (many < 1 || many > 10000) throw UsageError(at(file, *repeat) + ": repeat = {seeds = N} needs a whole number, 1 to 10000");
    if (first < 0 || first > std::numeric_limits<std::int64_t>::max() - many)
      throw UsageError(at(file, *repeat) + ": `first` of repeat must be a whole number, 0 or more, and leave room for the seeds behind it");
    for (std::int64_t seed = first; seed < first + many; ++seed) axis.points.push_back({seed});
  }
  if (!axis.points.empty()) axis.names = {"seed"};
  return axis;
}

void require_distinct(const Axis& axis, const std::string& where) {
  std::set<std::string> seen;
  for (const auto& point : axis.points) {
    Parameters parameters;
    for (std::size_t k = 0; k < axis.names.size(); ++k) parameters.set(axis.names[k], point[k]);
    if (!seen.insert(parameters.canonical_json()).second)
      throw UsageError(where + ": the axis `" + axis.names.front() +
                       "` has the same value twice: " + parameters.canonical_json());
  }
}

}  // namespace thinwire::sweep
