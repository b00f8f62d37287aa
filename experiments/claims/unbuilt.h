// Claims that the papers' pages list and no code judges yet (docs/papers/claims.csv).
#pragma once

#include <string>
#include <vector>

namespace thinwire::claims {

struct ListedClaim {
  std::string id, statement, provenance;
};

/// Those marked as not built, in the file's order. EnvironmentError where the list is neither beside the programs nor in the source tree,
/// CorruptData for a damaged one.
std::vector<ListedClaim> claims_not_built(const std::string& bin);

}  // namespace thinwire::claims
