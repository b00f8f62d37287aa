// Reading and selecting what is compared.
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/sha256.h"
#include "results/compare/compare.h"
#include "results/compare/compare_rows.h"
#include "results/files/files.h"
#include "results/hdf5/hdf5.h"
#include "results/record.h"

namespace thinwire::results {
namespace {

struct Clause {
  std::string column, pattern;
  bool negated = false;
};

std::string trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t"), to = text.find_last_not_of(" \t");
  return from == std::string_view::npos ? "" : std::string(text.substr(from, to - from + 1));
}

std::vector<Clause> clauses_of(const std::string& where) {
  std::vector<Clause> clauses;
  for (std::size_t from = 0; from <= where.size();) {
    const std::size_t end = std::min(where.find(" and ", from), where.size());
    const std::string text = trimmed(std::string_view(where).substr(from, end - from));
    from = end + 5;
    const std::size_t equal = text.find('=');
    if (equal == std::string::npos || equal == 0)
      throw UsageError("'" + where + "': `" + text +
                       "` is no clause; write column=value or column!=value, joined by ' and '");
    const bool negated = text[equal - 1] == '!';
    clauses.push_back({trimmed(std::string_view(text).substr(0, equal - (negated ? 1 : 0))),
                       trimmed(std::string_view(text).substr(equal + 1)), negated});
  }
  return clauses;
}

bool matches(const std::string& pattern, const std::string& value) {
  if (fnmatch(pattern.c_str(), value.c_str(), 0) == 0) return true;
  return fnmatch(pattern.c_str(), value.substr(0, value.find_first_of(":+")).c_str(), 0) == 0;
}

}  // namespace

const ColumnOf<CellRow>& cell_column(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const ColumnOf<CellRow>& column : cell_columns()) {
    if (name == column.name) return column;
    names.emplace_back(column.name);
  }
  throw UsageError(where + ": /cells has no column `" + name + "`; did you mean `" +
                   nearest_name(name, names.data(), names.data() + names.size()) +
                   "`? docs/results-schema.md lists them");
}

std::string text_of(const CellRow& row, const ColumnOf<CellRow>& column) {
  return std::visit(
      [&]<typename T>(T CellRow::*member) -> std::string {
        if constexpr (std::is_same_v<T, std::string>)
          return row.*member;
        else
          return to_text(ParameterValue(row.*member));
      },
      column.member);
}

CollectedFile read_collected(const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw EnvironmentError(path + ": no such file; `sweep collect` writes OUT/collected.h5");
  CollectedFile read{path, sha256_hex(read_file(path)), {}, {}, {}};
  const h5::File file = h5::File::open_read(path);
  require_schema(file);
  if (!file.has("cells"))
    throw CorruptData(path + ": no table /cells; it was not written by `sweep collect`");
  read.cells = from_table(file.read_table("cells"), cell_columns(), path + ": /cells");
  if (file.has("samples"))
    read.samples = from_table(file.read_table("samples"), sample_columns(), path + ": /samples");
  if (file.has("provenance"))
    read.launches = from_table(file.read_table("provenance"), provenance_columns(), path + ": /provenance");
  return read;
}

void select_rows(CollectedFile& file, const std::string& where) {
  for (const Clause& clause : clauses_of(where)) {
    const ColumnOf<CellRow>& column = cell_column(clause.column, "'" + where + "'");
    std::erase_if(file.cells, [&](const CellRow& row) {
      return matches(clause.pattern, text_of(row, column)) == clause.negated;
    });
  }
  if (file.cells.empty()) throw UsageError(file.path + ": '" + where + "' leaves no row of /cells");
}

const std::vector<std::string>& key_columns() {
  static const std::vector<std::string> columns = {
      "program", "traffic", "operation", "method",  "codec", "form",   "protocol", "dtype",
      "tensor",  "source",  "link",      "compute", "ranks", "tp",     "pp",       "dp",
      "layers",  "batch",   "seq",       "hidden",  "seed",  "corpus", "threads"};
  return columns;
}

}  // namespace thinwire::results
