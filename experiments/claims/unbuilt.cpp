#include "experiments/claims/unbuilt.h"

#include "experiments/claims/registry.h"
#include "results/csv.h"
#include "results/files/files.h"

namespace thinwire::claims {

std::vector<ListedClaim> claims_not_built(const std::string& bin) {
  const std::string path = shared_file(bin, "docs/papers/claims.csv");
  results::Table like;
  for (const char* column : {"id", "statement", "provenance", "built"}) like.columns.push_back({column, std::vector<std::string>()});
  const results::Table table = results::table_from_csv(results::read_file(path), like, path);
  const auto text = [&](std::size_t column, std::size_t row) { return std::get<std::vector<std::string>>(table.columns[column].values)[row]; };
  std::vector<ListedClaim> claims;
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (text(3, row) == "no") claims.push_back({text(0, row), text(1, row), text(2, row)});
  return claims;
}

}  // namespace thinwire::claims
