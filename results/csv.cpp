#include "results/csv.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "results/files/files.h"
#include "results/hdf5/hdf5.h"
#include "results/record.h"
#include "results/schema.h"

namespace thinwire::results {
namespace {

void put(std::string& text, const std::string& value) {
  if (value.find_first_of(",\"\r\n") == std::string::npos) {
    text += value;
    return;
  }
  text += '"';
  for (const char c : value) text += c == '"' ? "\"\"" : std::string(1, c);
  text += '"';
}

template <typename T>
void put(std::string& text, T value) {
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) {
      text += std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
      return;
    }
  char digits[32];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

/// The fields of the record that starts at `at`, which moves behind it.
std::vector<std::string> next_record(const std::string& text, std::size_t& at, const std::string& where) {
  std::vector<std::string> fields(1);
  const std::size_t from = at;
  while (at < text.size()) {
    const char c = text[at++];
    if (c == '\n') return fields;
    if (c == ',') {
      fields.emplace_back();
    } else if (c != '"') {
      fields.back() += c;
    } else {
      for (;; ++at) {
        if (at >= text.size()) throw CorruptData(where + ": a quote is never closed; the file is cut");
        if (text[at] != '"')
          fields.back() += text[at];
        else if (at + 1 < text.size() && text[at + 1] == '"')
          fields.back() += text[at++];
        else
          break;
      }
      ++at;
    }
  }
  throw CorruptData(where + ": the last line (from byte " + std::to_string(from) +
                    ") has no end; the file is cut");
}

template <typename T>
T value_from(const std::string& field, const std::string& where) {
  if constexpr (std::is_same_v<T, std::string>) {
    return field;
  } else {
    T value{};
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || field.empty())
      throw CorruptData(where + ": `" + field + "` is no number");
    return value;
  }
}

Table columns_csv() {
  std::vector<std::string> of[5];
  for (const TableSchema& table : all_tables())
    for (const ColumnSchema& column : table.columns) {
      const std::string* fields[] = {&table.name, &column.name, &column.type, &column.unit, &column.help};
      for (std::size_t i = 0; i < 5; ++i) of[i].push_back(*fields[i]);
    }
  return {{{"table", of[0]}, {"column", of[1]}, {"type", of[2]}, {"unit", of[3]}, {"meaning", of[4]}}};
}

/// `folder` becomes what `made` is; on most file systems in one step.
void replace_folder(const std::string& made, const std::string& folder) {
  std::error_code ignored;
  if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) {
    std::filesystem::remove_all(made, ignored);
    return;
  }
  std::filesystem::remove_all(folder, ignored);
  if (rename(made.c_str(), folder.c_str()) != 0)
    throw EnvironmentError(folder + ": cannot be put in place (" + std::strerror(errno) +
                           "); remove what is in its way");
}

}  // namespace

std::string to_csv(const Table& table) {
  std::string text;
  const auto line = [&](const auto& put_column) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      if (c > 0) text += ',';
      put_column(table.columns[c]);
    }
    text += '\n';
  };
  line([&](const TableColumn& column) { put(text, column.name); });
  for (std::size_t row = 0; row < table.rows(); ++row)
    line([&](const TableColumn& column) {
      std::visit([&](const auto& values) { put(text, values[row]); }, column.values);
    });
  return text;
}

Table table_from_csv(const std::string& text, const Table& like, const std::string& where) {
  Table table;
  for (const TableColumn& column : like.columns) {
    table.columns.push_back({column.name, {}});
    std::visit([&]<typename T>(const std::vector<T>&) { table.columns.back().values = std::vector<T>(); },
               column.values);
  }
  std::size_t at = 0;
  const std::vector<std::string> header = next_record(text, at, where);
  bool agrees = header.size() == like.columns.size();
  for (std::size_t c = 0; agrees && c < header.size(); ++c) agrees = header[c] == like.columns[c].name;
  if (!agrees)
    throw CorruptData(
        where +
        ": its first line does not name the columns of this table; it was written by another version");
  for (std::size_t line = 2; at < text.size(); ++line) {
    const std::string here = where + ", record " + std::to_string(line);
    const std::vector<std::string> fields = next_record(text, at, here);
    if (fields.size() != table.columns.size())
      throw CorruptData(here + ": " + std::to_string(fields.size()) + " fields where there are " +
                        std::to_string(table.columns.size()) + " columns");
    for (std::size_t c = 0; c < fields.size(); ++c)
      std::visit(
          [&]<typename T>(std::vector<T>& values) {
            values.push_back(value_from<T>(fields[c], here + ", column " + header[c]));
          },
          table.columns[c].values);
  }
  return table;
}

std::size_t export_csv(const std::string& collected, const std::string& folder) {
  if (!std::filesystem::is_regular_file(collected))
    throw EnvironmentError(collected + ": no such file; `sweep collect` writes it");
  const h5::File file = h5::File::open_read(collected);
  require_schema(file);
  const std::string made = folder + ".tmp";
  std::error_code ignored;
  std::filesystem::remove_all(made, ignored);
  make_folder(made);
  try {
    std::size_t tables = 0;
    for (const std::string& name : file.names()) {
      if (!file.info(name).is_table) continue;
      write_file_atomically(made + "/" + name + ".csv", to_csv(file.read_table(name)));
      ++tables;
    }
    write_file_atomically(made + "/columns.csv", to_csv(columns_csv()));
    replace_folder(made, folder);
    return tables;
  } catch (...) {
    std::filesystem::remove_all(made, ignored);
    throw;
  }
}

}  // namespace thinwire::results
