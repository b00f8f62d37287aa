// The register of rules (experiments/claims/registry.lock, generated and committed): which rule was registered when. A rule that changes later
// keeps its former hashes, each with what was changed and why.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/claims/claim.h"
#include "experiments/claims/source_hash.h"

namespace thinwire::claims {

/// Whether the claims program computes what such a claim says, by arithmetic or a model: its rule is hashed with the file that does.
bool is_computed(Basis basis);
/// SHA-256 of all that decides a verdict: statement, basis, smallest profile, rule, seeds, and, where the claims program computes the numbers itself (is_computed(), Claim::computed_by), the files that do.
std::string rule_hash(const Claim& claim, const SourceHashes& hashes = source_hashes());

struct RegisteredRule {
  std::string hash, date;  ///< of the rule as it is now, and the day since when ("2026-11-22")
  struct Change {
    std::string date, former_hash, what, why;
  };
  std::vector<Change> changes;  ///< oldest first
};

struct Registry {
  std::map<std::string, RegisteredRule> rules;  ///< by claim
  std::string hash;                             ///< SHA-256 of its text: what cells carry
};

/// A file that is read at run time: of the installation that `bin` belongs to, else of the source tree. EnvironmentError where it is in neither.
std::string shared_file(const std::string& bin, const std::string& file);
inline const char* const registry_file = "experiments/claims/registry.lock";

/// CorruptData, naming `where`, for what is no register.
Registry registry_from(const std::string& text, const std::string& where);
std::string to_text(const Registry& registry);

/// Claims whose rule is not the registered one, or that are not registered, in words; empty: the lock is up to date.
std::vector<std::string> unregistered(const Registry& registry, const std::vector<const Claim*>& claims);
/// The lock with all rules as they are. New claims get `date`; a changed rule keeps its former hash under `what` and `why`, which
/// must not be empty then (UsageError). Claims that no longer exist keep their entry: a rule once registered stays visible.
Registry updated(Registry registry, const std::vector<const Claim*>& claims, const std::string& date, const std::string& what, const std::string& why);

}  // namespace thinwire::claims
