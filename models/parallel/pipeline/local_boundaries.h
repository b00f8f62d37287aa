// The backward boundary messages of a 1f1b pipeline within one rank, which holds the whole model and sends them to itself: by the channels, under
// the names and in the order of the pipeline's ranks, so that a loss study needs one process (docs/training.md).
#pragma once

#include <vector>

#include "models/parallel/channels/channel_pair.h"
#include "models/stage/stage.h"
#include "models/training/config/train_config.h"

namespace thinwire {

template <typename T>
class LocalBoundaries {
 public:
  /// Hooks itself into `model`, a whole one, for as long as both live: the model's backward passes go on with what arrived. `pair` is of
  /// pp_backward over a group of this rank alone; TrainConfig::boundary_stages says how many stages. UsageError for a model without boundary hooks.
  LocalBoundaries(const TrainConfig& config, ChannelPair& pair, Stage<T>& model);
  LocalBoundaries(const LocalBoundaries&) = delete;
  LocalBoundaries& operator=(const LocalBoundaries&) = delete;

 private:
  void exchange(int layer, const PassContext& pass, Tensor& gradient);

  const TrainConfig& config_;
  ChannelPair& pair_;
  int layers_per_stage_;
  Tensor arrived_;
};

}  // namespace thinwire
