// The tied table of a pipeline: first and last stage hold copies, whose gradients are summed (class `embedding`). In two steps, over the ranks
// of a replica's data group and then over {first, last stage}, or fused, over both at once (Optimus-CC, docs/papers/optimus_cc.md, "The
// method, as built here"). Where the store shards the table, the first step is the reduce-scatter of any matrix, and the second sums what each rank owns.
#pragma once

#include "collectives/communicator/process_mesh.h"
#include "models/compute/compute_clock.h"
#include "models/parallel/channels/channel_pair.h"
#include "models/parallel/channels/channel_spec.h"
#include "models/store/owned_part.h"
#include "models/training/config/train_config.h"

namespace thinwire {

/// What TiedTable needs: none without a pipeline. `over_replicas` false: over the stages alone, rank by rank.
std::vector<ChannelSpec> tied_table_channels(const TrainConfig& config, ProcessMesh& mesh, bool over_replicas);

template <typename T>
class TiedTable {
 public:
  /// `table` null: nothing to do. `copies`: data-parallel ranks whose mean is wanted; 1 without over_replicas.
  TiedTable(const OwnedPart<T>* table, const NamedChannels& channels, int copies, ComputeClock& clock);

  /// Starts the first step.
  void start(std::int64_t step);
  /// Waits, and does the rest.
  void finish(double& waited_us);
  /// What is summed: null without a table.
  const OwnedPart<T>* table() const { return table_; }
  /// Whether start() sends anything.
  bool starts() const { return table_ != nullptr && first_ != nullptr; }

 private:
  MessageKey key() const;
  const OwnedPart<T>* table_;
  ChannelPair *first_, *stages_;
  int copies_;
  ComputeClock& clock_;
  std::int64_t step_ = 0;
  Operation operation_;
};

}  // namespace thinwire
