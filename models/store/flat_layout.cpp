#include "models/store/flat_layout.h"

#include <algorithm>

#include "core/error.h"

namespace thinwire {
namespace {

/// What goes together has equal keys; flat parameters come in the order of their keys.
struct Key {
  int home = 0;
  std::size_t alone = 0;  ///< the candidate's number and one; 0: with others
  bool operator<(const Key& other) const { return home != other.home ? home < other.home : alone < other.alone; }
};

/// First unit of the chunk that a unit lies in.
std::vector<int> chunk_begins(const std::vector<FlatUnit>& units) {
  std::vector<int> begins;
  for (std::size_t u = 0; u < units.size(); ++u) begins.push_back(u > 0 && units[u].layer == units[u - 1].layer + 1 ? begins.back() : static_cast<int>(u));
  return begins;
}

}  // namespace

std::int64_t FlatParameter::padding() const {
  std::int64_t rest = elements();
  for (const Member& m : members) rest -= m.elements;
  return rest;
}

std::vector<FlatParameter> flat_parameters(const std::vector<FlatCandidate>& candidates, const std::vector<FlatUnit>& units, const FlatRule& rule) {
  const std::vector<int> begins = chunk_begins(units);
  std::map<Key, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const FlatCandidate& c = candidates[i];
    const bool by_size = rule.alone_from > 0, alone = c.alone || (by_size && c.matrix && c.elements >= rule.alone_from);
    const int home = c.readers.front();
    groups[{alone || !by_size ? home : begins.at(static_cast<std::size_t>(home)), alone ? i + 1 : 0}].push_back(i);
  }
  std::vector<FlatParameter> flats;
  for (const auto& [key, members] : groups) {
    FlatParameter& flat = flats.emplace_back();
    const std::string& unit = units.at(static_cast<std::size_t>(key.home)).name;
    flat.name = (key.alone > 0 ? candidates[members.front()].name : rule.alone_from > 0 ? "rest from " + unit : unit) + ".flat";
    std::int64_t end = 0;
    for (const std::size_t i : members) {
      const std::int64_t first = (end + rule.alignment - 1) / rule.alignment * rule.alignment;
      flat.members.push_back({i, first, candidates[i].elements});
      end = first + candidates[i].elements;
      for (const int reader : candidates[i].readers)
        if (std::ranges::find(flat.readers, reader) == flat.readers.end()) flat.readers.push_back(reader);
    }
    std::ranges::sort(flat.readers);
    flat.rule_layer = key.alone == 0 && rule.alone_from > 0 ? -1 : units.at(key.home).layer;
    flat.shards = rule.shards;
    flat.shard = (end + rule.shards - 1) / rule.shards;
  }
  return flats;
}

}  // namespace thinwire
