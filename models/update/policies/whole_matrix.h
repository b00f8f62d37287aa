// A matrix of which each rank has a piece, whole on all of them for a while: first the rows that the ranks of
// a replica share out (--zero-stage), then the blocks of tensor ranks, 1-D or a grid. What travels is of
// class `optimizer`. Blocks that several tensor ranks hold alike (2.5-D) travel once for each.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "models/parallel/channels/row_exchange.h"
#include "models/update/update_policy.h"

namespace thinwire {

std::vector<ChannelSpec> whole_matrix_channels(const TrainConfig& config, ProcessMesh& mesh);
/// `optimizer`, where there is anybody to ask for a piece.
std::set<TrafficClass> whole_matrix_classes(const TrainConfig& config);

template <typename T>
class WholeMatrix {
 public:
  /// Collective over tensor ranks, which have the same `parts` in the same order.
  WholeMatrix(const UpdateContext<T>& context, const std::vector<OwnedPart<T>>& parts);

  /// Collective, of parts[i]: `piece`, of the shape of its weights, with those of all others. The result
  /// [layout.global()] is the caller's to change, until the next call. Adds the time to `waited_us`.
  T* gather(std::size_t i, ConstTensorView piece, std::int64_t step, double& waited_us);
  /// to = factor times this rank's piece of what gather() gave.
  void take(std::size_t i, double factor, T* to) const;

 private:
  const std::vector<OwnedPart<T>>& parts_;
  int stage_;
  RowExchange shards_;
  ChannelPair* tensor_;
  std::vector<std::vector<std::pair<AxisRange, AxisRange>>>
      blocks_;  ///< by part and tensor rank: rows and columns
  Tensor local_, pieces_, whole_;
};

}  // namespace thinwire
