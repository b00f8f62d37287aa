// How activations and parameters lie over the ranks of a process grid. Everything that differs between one
// device and 1-D, 2-D, 2.5-D or 3-D tensor parallelism is said here; layers, initialisation, clipping and
// checkpoints ask, so each exists once. An axis is split by an ordered list of groups, the first outermost:
// split by (i, j) means block i of the axis, inside it sub-block j. So a rank's part is always contiguous.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.h"
#include "core/device/tensor.h"

namespace thinwire {

/// One line of the process grid as seen by a rank: its name ("tensor", "row", ...), its size, this rank's
/// place.
struct SplitGroup {
  std::string name;
  int size = 1;
  int index = 0;
  bool operator==(const SplitGroup&) const = default;
};
using SplitGroups = std::vector<SplitGroup>;

/// Ranks in the product of the groups, and this rank's mixed-radix place in it (first group outermost).
int parts_of(const SplitGroups& groups);
int place_of(const SplitGroups& groups);

/// The contiguous range of an axis that a rank holds.
struct AxisRange {
  std::int64_t begin = 0, count = 0;
  bool operator==(const AxisRange&) const = default;
};
/// UsageError naming both numbers when `extent` is not a multiple of the number of parts.
AxisRange split_axis(const std::string& what, std::int64_t extent, const SplitGroups& groups);

/// Layout of an activation [batch, sequence, hidden]. Batch is split in order, in whole sequences.
struct Layout {
  SplitGroups batch, sequence, hidden;

  /// Nothing is split: one device, or 1-D tensor parallelism between its linears.
  static Layout replicated() { return {}; }
  /// This rank's part of a global [batch, sequence, hidden].
  Shape local(const Shape& global) const;
  /// Groups over which a sum along the hidden axis (layernorm, softmax over the vocabulary) must be reduced.
  const SplitGroups& hidden_reduction() const { return hidden; }
  bool hidden_is_whole() const { return parts_of(hidden) == 1; }
  bool operator==(const Layout&) const = default;
};

/// Layout of a parameter: a matrix [rows, columns], or a vector (one row). Each axis is split by groups; the
/// groups in `replicas` hold equal copies and share one gradient, to be reduced over them.
class ParameterLayout {
 public:
  ParameterLayout() = default;
  ParameterLayout(std::string name, Shape global, SplitGroups row_groups, SplitGroups column_groups,
                  SplitGroups replicas = {});
  /// The whole parameter on this rank, no replicas.
  static ParameterLayout whole(std::string name, Shape global) { return {std::move(name), global, {}, {}}; }
  /// The same layout on a rank that holds nothing of it (the diagonal form of 3-D vectors: a piece lies only
  /// where two indices agree).
  ParameterLayout absent() const;
  /// The same layout where only the first `used` rows of a matrix, or elements of a vector, are the model's: the rest is padding, so that
  /// the axis divides (a vocabulary). It holds no values that count, and files leave it out.
  ParameterLayout padded_after(std::int64_t used) const;

  const std::string& name() const { return name_; }
  const Shape& global() const { return global_; }
  /// global() without its padding.
  const Shape& used() const { return used_; }
  Shape local() const;
  AxisRange rows() const { return rows_; }
  AxisRange columns() const { return columns_; }
  const SplitGroups& row_groups() const { return row_groups_; }
  const SplitGroups& column_groups() const { return column_groups_; }
  const SplitGroups& replicas() const { return replicas_; }
  int replica_count() const { return parts_of(replicas_); }
  /// True on one member of each replication group: who counts the parameter in a global norm.
  bool counts_in_norm() const { return held_ && place_of(replicas_) == 0; }
  /// Row-major index in the global parameter of this rank's local element.
  std::int64_t global_index(std::int64_t local) const;

 private:
  std::string name_;
  Shape global_{0}, used_{0};
  SplitGroups row_groups_, column_groups_, replicas_;
  AxisRange rows_, columns_;
  bool held_ = true;
};

/// Normal(0, deviation) by global index, so that a parameter has the same values however it is split. `to` is
/// f32 or f64, on the host or where the thread computes: rows [first_row, first_row + its rows) of layout.local().
void initialise_normal(const ParameterLayout& layout, std::uint64_t seed, double deviation, TensorView to, std::int64_t first_row = 0);

}  // namespace thinwire
