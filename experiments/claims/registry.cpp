#include "experiments/claims/registry.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/sha256.h"
#include "thinwire_version.h"

namespace thinwire::claims {
namespace {

using OrderedJson = nlohmann::ordered_json;
constexpr int register_schema = 1;

}  // namespace

bool is_computed(Basis basis) {
  constexpr std::array measured = {Basis::emulated_link, Basis::namespaces, Basis::training, Basis::device};
  return std::find(measured.begin(), measured.end(), basis) == measured.end();
}

std::string rule_hash(const Claim& claim, const SourceHashes& hashes) {
  std::string text = claim.statement + "\n" + name_of(claim.basis) + "\n" + name_of(claim.from) + "\n" + canonical(claim.rule) + "\n" + claim.not_validated + "\n";
  for (const int n : claim.seeds) text += std::to_string(n) + " ";
  if (claim.measure && (is_computed(claim.basis) || !claim.computed_by.empty())) {
    const auto found = hashes.find(claim.source);
    if (found == hashes.end()) throw std::logic_error(claim.id + " is registered in " + claim.source + ", which is no source of experiments/claims");
    text += "\n" + found->second;
    if (!claim.computed_by.empty()) text += "\n" + hash_of_sources(claim.computed_by, hashes);
  }
  return sha256_hex(text);
}

std::string shared_file(const std::string& bin, const std::string& file) {
  const std::string installed = bin + "/../share/thinwire/" + file, source = std::string(THINWIRE_SOURCE_FOLDER) + "/" + file;
  std::error_code unreadable;
  for (const std::string& path : {installed, source})
    if (std::filesystem::exists(path, unreadable)) return path;
  throw EnvironmentError("neither " + installed + " nor " + source + " exists; install thinwire whole, or keep its source tree");
}

Registry registry_from(const std::string& text, const std::string& where) {
  Registry registry;
  registry.hash = sha256_hex(text);
  try {
    const OrderedJson file = OrderedJson::parse(text);
    if (file.at("schema") != register_schema) throw CorruptData(where + ": schema " + file.at("schema").dump() + " where this program reads " + std::to_string(register_schema));
    for (const auto& [id, entry] : file.at("rules").items()) {
      RegisteredRule rule{entry.at("hash"), entry.at("date"), {}};
      for (const OrderedJson& c : entry.at("changes")) rule.changes.push_back({c.at("date"), c.at("former_hash"), c.at("what"), c.at("why")});
      registry.rules.emplace(id, std::move(rule));
    }
  } catch (const OrderedJson::exception& error) {
    throw CorruptData(where + " is no register of rules (" + error.what() + "); take it from the repository again");
  }
  return registry;
}

std::string to_text(const Registry& registry) {
  OrderedJson rules = OrderedJson::object();
  for (const auto& [id, rule] : registry.rules) {
    OrderedJson changes = OrderedJson::array();
    for (const auto& c : rule.changes) changes.push_back({{"date", c.date}, {"former_hash", c.former_hash}, {"what", c.what}, {"why", c.why}});
    rules[id] = {{"hash", rule.hash}, {"date", rule.date}, {"changes", changes}};
  }
  return OrderedJson{{"schema", register_schema}, {"written_by", "claims lock"}, {"rules", rules}}.dump(1) + "\n";
}

std::vector<std::string> unregistered(const Registry& registry, const std::vector<const Claim*>& claims) {
  std::vector<std::string> wrong;
  for (const Claim* claim : claims) {
    const auto found = registry.rules.find(claim->id);
    if (found == registry.rules.end())
      wrong.push_back(claim->id + " is not registered");
    else if (found->second.hash != rule_hash(*claim))
      wrong.push_back(claim->id + " has another rule than the one registered on " + found->second.date);
  }
  return wrong;
}

Registry updated(Registry registry, const std::vector<const Claim*>& claims, const std::string& date, const std::string& what, const std::string& why) {
  for (const Claim* claim : claims) {
    const std::string hash = rule_hash(*claim);
    const auto [at, is_new] = registry.rules.try_emplace(claim->id, RegisteredRule{hash, date, {}});
    RegisteredRule& rule = at->second;
    if (is_new || rule.hash == hash) continue;
    if (what.empty() || why.empty()) throw UsageError(claim->id + " has another rule than the one registered on " + rule.date + ": say what changed and why (--what, --why)");
    rule.changes.push_back({date, rule.hash, what, why});
    rule.hash = hash;
    rule.date = date;
  }
  registry.hash = sha256_hex(to_text(registry));
  return registry;
}

}  // namespace thinwire::claims
