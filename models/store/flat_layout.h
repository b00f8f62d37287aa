// Which parameters lie one behind the other in a flat one, and where: FSDP's layout before its second version (PyTorch: FlatParameter; docs/training.md, "Flat parameters").
//   [member 0 | member 1 | ... | padding] = W equal shards, of which rank r owns the r-th, across the borders of tensors and inside their rows
// Vectors are in it, too. Store, gradient synchronisation, memory estimate and tests ask here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace thinwire {

/// A parameter that may be made part of a flat one.
struct FlatCandidate {
  std::string name;
  std::int64_t elements = 0;
  bool matrix = false;
  bool alone = false;        ///< a flat parameter of its own in any case
  std::vector<int> readers;  ///< units whose passes read it, by their place in the order of the forward pass; the first is its home
};

struct FlatUnit {
  std::string name;
  int layer = 0;  ///< as Unit's: neighbours of one chunk have layers in a row
};

struct FlatRule {
  int shards = 1;
  std::int64_t alone_from = 0;  ///< matrices of so many elements are flat parameters of their own, what is left of a chunk is one; 0: one of all that has its home in a unit
  std::int64_t alignment = 1;   ///< members begin at multiples of so many elements
};

struct FlatParameter {
  struct Member {
    std::size_t candidate = 0;
    std::int64_t first = 0, elements = 0;
    std::int64_t end() const { return first + elements; }
  };
  std::string name;
  std::vector<int> readers;  ///< ascending; the backward pass of the first completes the gradient
  std::vector<Member> members;
  int rule_layer = 0;      ///< that a compression rule's `layers` go by: its home's; -1, no layer, of what FlatRule::alone_from leaves of a chunk, on whatever stage
  std::int64_t shard = 0;  ///< elements of each rank's
  int shards = 1;
  int home() const { return readers.front(); }
  std::int64_t elements() const { return shard * shards; }
  std::int64_t padding() const;  ///< elements that are no member's
};

/// Members in the order of `candidates`, which is that of the forward pass; flat parameters by their homes.
std::vector<FlatParameter> flat_parameters(const std::vector<FlatCandidate>& candidates, const std::vector<FlatUnit>& units, const FlatRule& rule);

/// Candidates of a list of units that have name, layer and parameters: `describe` fills all of a candidate but its readers, and says false for what stays out of the layout. A
/// parameter that several units read is listed once.
template <typename Units, typename Describe>
std::vector<FlatCandidate> flat_candidates(const Units& units, Describe describe) {
  std::vector<FlatCandidate> candidates;
  std::map<std::string, std::size_t> places;
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const auto& parameter : units[u].parameters) {
      FlatCandidate c;
      if (!describe(parameter, c)) continue;
      const auto [found, is_new] = places.emplace(c.name, candidates.size());
      if (is_new) candidates.push_back(std::move(c));
      candidates[found->second].readers.push_back(static_cast<int>(u));
    }
  return candidates;
}
template <typename Units>
std::vector<FlatUnit> flat_units(const Units& units) {
  std::vector<FlatUnit> list;
  for (const auto& unit : units) list.push_back({unit.name, unit.layer});
  return list;
}

}  // namespace thinwire
