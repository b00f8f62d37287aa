#include "experiments/claims/claim.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <tuple>

#include "core/error.h"
#include "experiments/claims/context.h"
#include "experiments/claims/source_hash.h"

namespace thinwire::claims {
namespace {

const std::vector<std::string> profile_names = {"smoke", "quick", "standard", "full"};

std::map<std::string, Claim>& registry() {
  static std::map<std::string, Claim> claims;
  return claims;
}

/// "optimus_cc.C5b" -> {"optimus_cc", 5, "b"}.
std::tuple<std::string, int, std::string> order_of(const std::string& id) {
  const std::size_t dot = id.rfind(".C");
  if (dot == std::string::npos) return {id, 0, ""};
  char* rest = nullptr;
  const long number = std::strtol(id.c_str() + dot + 2, &rest, 10);
  return {id.substr(0, dot), static_cast<int>(number), rest};
}

}  // namespace

std::string name_of(Basis basis) {
  constexpr std::array names = {"exact", "event model", "emulated link", "namespaces", "training", "device", "cost model", "published numbers"};
  return names[static_cast<std::size_t>(basis)];
}

std::string name_of(Profile profile) {
  return profile_names[static_cast<std::size_t>(profile)];
}

Profile profile_named(const std::string& name) {
  for (std::size_t i = 0; i < profile_names.size(); ++i)
    if (profile_names[i] == name) return static_cast<Profile>(i);
  throw UsageError("no profile `" + name + "`; did you mean `" + nearest_name(name, profile_names.data(), profile_names.data() + profile_names.size()) +
                   "`? (smoke, quick, standard, full)");
}

bool register_claim(Claim claim, std::source_location where) {
  const std::string id = claim.id;
  claim.source = source_of(where);
  for (const std::string& file : claim.computed_by)
    if (!source_hashes().contains(file)) throw std::logic_error(id + " says that it is computed by " + file + ", which is no source of experiments/claims");
  if (claim.measure)
    claim.measure = [measure = std::move(claim.measure)](JudgeContext& context) {
      try {
        return measure(context);
      } catch (const CellSkipped& cell) {
        return Finding{.measures = {}, .note = cell.what(), .instead = Verdict::skipped};
      }
    };
  if (!registry().emplace(id, std::move(claim)).second) throw std::logic_error("the claim " + id + " is registered twice");
  return true;
}

std::vector<const Claim*> all_claims() {
  std::vector<const Claim*> all;
  for (const auto& [id, claim] : registry()) all.push_back(&claim);
  std::sort(all.begin(), all.end(), [](const Claim* a, const Claim* b) { return order_of(a->id) < order_of(b->id); });
  return all;
}

std::vector<const Claim*> claims_named(const std::string& pattern) {
  std::vector<const Claim*> found;
  std::vector<std::string> ids;
  for (const Claim* claim : all_claims()) {
    ids.push_back(claim->id);
    if (!claim->id.starts_with(pattern)) continue;
    const char next = claim->id.size() > pattern.size() ? claim->id[pattern.size()] : '.';
    const bool is_page = pattern.find(".C") == std::string::npos;
    if (is_page ? next == '.' : next < '0' || next > '9') found.push_back(claim);
  }
  if (found.empty())
    throw UsageError("no claim `" + pattern + "`; did you mean `" + nearest_name(pattern, ids.data(), ids.data() + ids.size()) +
                     "`? `claims list` shows all");
  return found;
}

}  // namespace thinwire::claims
