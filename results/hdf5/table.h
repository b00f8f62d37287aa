// A table as columns in memory, and the mapping between rows of a struct and such a table: one list of
// columns per row type serves HDF5, JSON and the documentation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"

namespace thinwire::results {

/// One named column: text, 64-bit integers or float64. All columns of a table have the same length.
struct TableColumn {
  std::string name;
  std::variant<std::vector<std::string>, std::vector<std::int64_t>, std::vector<double>> values;
};

struct Table {
  std::vector<TableColumn> columns;

  std::size_t rows() const;
  /// The column called `name`, or nullptr.
  const TableColumn* find(const std::string& name) const;
  /// Appends the rows of `other`, which must have the same columns in any order. Throws CorruptData naming
  /// the first column that is missing or has another type.
  void append(const Table& other);
};

/// One column of the row struct `Row`: `unit` and `help` as in docs/results-schema.md (a test compares).
template <typename Row>
struct ColumnOf {
  const char* name;
  std::variant<std::string Row::*, std::int64_t Row::*, double Row::*> member;
  const char* help;
  bool later = false;  ///< came after the first files of this schema version: where it is absent, rows keep the default
};

/// "string", "i64" or "f64", as docs/results-schema.md spells them.
template <typename Row>
const char* type_name(const ColumnOf<Row>& column) {
  constexpr const char* names[] = {"string", "i64", "f64"};
  return names[column.member.index()];
}

template <typename Row>
Table to_table(std::span<const Row> rows, std::span<const ColumnOf<Row>> columns) {
  Table table;
  for (const ColumnOf<Row>& column : columns) {
    std::visit(
        [&]<typename T>(T Row::*member) {
          std::vector<T> values;
          values.reserve(rows.size());
          for (const Row& row : rows) values.push_back(row.*member);
          table.columns.push_back({column.name, std::move(values)});
        },
        column.member);
  }
  return table;
}

/// Inverse of to_table. `where` names the file and table. Throws CorruptData when a column is missing (unless it came later) or has
/// another type; further columns are ignored.
template <typename Row>
std::vector<Row> from_table(const Table& table, std::span<const ColumnOf<Row>> columns,
                            const std::string& where) {
  std::vector<Row> rows(table.rows());
  for (const ColumnOf<Row>& column : columns) {
    const TableColumn* found = table.find(column.name);
    if (found == nullptr && column.later) continue;
    if (found == nullptr)
      throw CorruptData(where + " lacks the column `" + column.name + "`: it was written by another version");
    std::visit(
        [&]<typename T>(T Row::*member) {
          const auto* values = std::get_if<std::vector<T>>(&found->values);
          if (values == nullptr)
            throw CorruptData(where + ": column `" + column.name + "` is not of type " + type_name(column));
          for (std::size_t i = 0; i < rows.size(); ++i) rows[i].*member = (*values)[i];
        },
        column.member);
  }
  return rows;
}

}  // namespace thinwire::results
