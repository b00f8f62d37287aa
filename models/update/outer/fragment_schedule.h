// Which part of a model replicas exchange when (docs/papers/low_communication.md, "Outer steps"; Streaming DiLoCo as in torchft). P fragments take turns, one each H/P inner steps; the exchange of a
// fragment begins `overlap` inner steps before its turn ends and goes on beside them. One fragment that does not overlap is DiLoCo. Data, which tests inspect.
#pragma once

#include <cstdint>

namespace thinwire {

/// How layers are shared out over fragments: runs of neighbours, or every P-th.
enum class FragmentLayout { blocks, strided };

class FragmentSchedule {
 public:
  /// UsageError unless `fragments` divides `inner_steps` and `overlap` is shorter than a turn.
  FragmentSchedule(std::int64_t inner_steps, int fragments, std::int64_t overlap);

  // After `done` inner steps, counted from 1; -1: none.
  int begins(std::int64_t done) const;
  int ends(std::int64_t done) const;
  /// Begun and not ended before the next inner step.
  int under_way(std::int64_t done) const;
  int fragments() const { return fragments_; }
  bool overlaps() const { return overlap_ > 0; }

 private:
  int fragment_at(std::int64_t boundary) const { return static_cast<int>((boundary / turn_ - 1) % fragments_); }
  int fragments_;
  std::int64_t turn_, overlap_;
};

/// The fragment of a unit (Unit::layer) of a model of so many layers. Embedding and head belong to the first.
int fragment_of(int unit, std::int64_t layers, int fragments, FragmentLayout layout);

}  // namespace thinwire
