#include "experiments/claims/published.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"
#include "experiments/claims/registry.h"
#include "results/csv.h"
#include "results/files/files.h"

namespace thinwire::claims {

Published Published::open(const JudgeContext& context, const std::string& file) {
  const std::string path = shared_file(context.cells.paths().bin, "results/published/" + file);
  results::Table like;
  for (const char* column : {"paper", "artifact", "row", "column", "value", "unit", "provenance", "source", "note"})
    like.columns.push_back({column, std::vector<std::string>()});
  const results::Table table = results::table_from_csv(results::read_file(path), like, path);
  const auto text = [&](std::size_t column, std::size_t row) { return std::get<std::vector<std::string>>(table.columns[column].values)[row]; };
  std::vector<PublishedNumber> numbers;
  for (std::size_t r = 0; r < table.rows(); ++r) {
    PublishedNumber n{text(0, r), text(1, r), text(2, r), text(3, r), no_number, text(5, r), text(6, r), text(7, r)};
    const std::string value = text(4, r);
    double parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error == std::errc() && end == value.data() + value.size() && !value.empty()) n.value = parsed;
    numbers.push_back(std::move(n));
  }
  return Published(std::move(numbers));
}

const PublishedNumber& Published::at(const std::string& paper, const std::string& artifact, const std::string& row, const std::string& column) const {
  const auto found = std::find_if(numbers_.begin(), numbers_.end(), [&](const PublishedNumber& n) {
    return n.paper.rfind(paper, 0) == 0 && n.artifact == artifact && n.row == row && n.column == column;
  });
  if (found == numbers_.end()) throw CorruptData("results/published has no " + column + " of '" + row + "' in '" + artifact + "' of " + paper);
  return *found;
}

double Published::read(const std::string& paper, const std::string& artifact, const std::string& row, const std::string& column) const {
  const PublishedNumber& n = at(paper, artifact, row, column);
  if (n.provenance != "read")
    throw CorruptData("results/published: " + column + " of '" + row + "' in '" + artifact + "' of " + paper + " is " + n.provenance +
                      ", not read in the source; it cannot stand for the paper's number");
  return n.value;
}

std::vector<std::string> Published::rows(const std::string& paper, const std::string& artifact) const {
  std::vector<std::string> rows;
  for (const PublishedNumber& n : numbers_)
    if (n.paper.rfind(paper, 0) == 0 && n.artifact == artifact && std::find(rows.begin(), rows.end(), n.row) == rows.end()) rows.push_back(n.row);
  return rows;
}

}  // namespace thinwire::claims
