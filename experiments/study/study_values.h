// Values of a study file as this program wants them; every mistake is a UsageError that names file and line. For the reader of
// studies only: this header brings all of toml++.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "experiments/study/study.h"

namespace thinwire::sweep {

/// "file:line".
std::string at(const std::string& file, const toml::node& node);
/// Keys in the order of the file: toml++ sorts them, and the first axis shall vary slowest.
std::vector<std::string> keys_in_order(const toml::table& table);
/// Unknown keys are refused with the nearest valid one.
void require_known(const std::string& file, const toml::table& table, const std::string& section,
                   const std::vector<std::string>& known);

ParameterValue scalar(const std::string& file, const toml::node& node, const std::string& name);
/// A list, or one value as a list of one.
std::vector<ParameterValue> list(const std::string& file, const toml::node& node, const std::string& name);
std::string text_of(const std::string& file, const toml::table& table, const char* key);
/// A number above 0, or `otherwise` where the key is missing.
double positive_of(const std::string& file, const toml::table& table, const char* key, double otherwise);
const toml::table& table_of(const std::string& file, const toml::node& node, const std::string& name);
/// [[name]], or a single [name].
std::vector<const toml::table*> tables_of(const std::string& file, const toml::node& node,
                                          const std::string& name);

Parameters parameters_of(const std::string& file, const toml::table& table);
Condition condition_of(const std::string& file, const toml::table& table);
Axis zip_of(const std::string& file, const toml::table& table);
/// `seeds = [1, 2, 3]`, or `repeat = {seeds = 3, first = 1}`, as an axis called seed; no names where a grid has neither.
Axis seeds_of(const std::string& file, const toml::table& table);
/// An axis with the same value twice would run a cell once and look as if it ran twice.
void require_distinct(const Axis& axis, const std::string& where);

}  // namespace thinwire::sweep
