#include "results/hdf5/table.h"

namespace thinwire::results {

std::size_t Table::rows() const {
  if (columns.empty()) return 0;
  return std::visit([](const auto& values) { return values.size(); }, columns.front().values);
}

const TableColumn* Table::find(const std::string& name) const {
  for (const TableColumn& column : columns)
    if (column.name == name) return &column;
  return nullptr;
}

void Table::append(const Table& other) {
  if (columns.empty()) {
    *this = other;
    return;
  }
  // Checked in full first: a failing append must not leave columns of different lengths.
  for (const TableColumn& column : columns) {
    const TableColumn* more = other.find(column.name);
    if (more == nullptr || more->values.index() != column.values.index())
      throw CorruptData("a table to be appended lacks the column `" + column.name +
                        "` or has it with another type");
  }
  for (TableColumn& column : columns)
    std::visit(
        [&]<typename T>(std::vector<T>& values) {
          const auto& more = std::get<std::vector<T>>(other.find(column.name)->values);
          values.insert(values.end(), more.begin(), more.end());
        },
        column.values);
}

}  // namespace thinwire::results
