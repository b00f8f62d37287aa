// All tables of a collected file, as data: for exports, documents and whoever wants to check a file.
#pragma once

#include <string>
#include <vector>

namespace thinwire::results {

struct ColumnSchema {
  std::string name;
  std::string type;  ///< "string", "i64" or "f64"
  std::string unit;  ///< empty for text
  std::string help;
};
struct TableSchema {
  std::string name;
  std::vector<ColumnSchema> columns;
};
/// In the order of docs/results-schema.md.
const std::vector<TableSchema>& all_tables();

/// Names of columns (* stands for anything) and the unit of what they hold; the first that fits decides. Text
/// columns have none.
struct UnitRule {
  const char* columns;  ///< separated by ", "
  const char* unit;
};
const std::vector<UnitRule>& unit_rules();

}  // namespace thinwire::results
