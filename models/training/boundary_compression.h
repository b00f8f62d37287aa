// The backward messages of a pipeline, coded within one process: a whole model loses at its stage boundaries what the parallel trainer
// loses there, message by message, so that accuracy is measured without ranks (docs/papers/optimus_cc.md, "Worked examples" 10).
#pragma once

#include <functional>
#include <vector>

#include "kernels/codec/message.h"
#include "models/gpt/gpt.h"
#include "models/parallel/channels/rule_coverage.h"
#include "models/training/config/train_config.h"

namespace thinwire {

/// One covered message, seen between sender and receiver. Valid within the call only.
struct BoundaryMessage {
  int boundary = 0;  ///< number of the layer behind it
  int sender = 0;    ///< stage
  int replica = 0;
  int micro = 0;
  std::int64_t step = 0;
  ConstTensorView gradient;  ///< [micro-batch x seq, hidden], as it left the sender's backward pass
  ConstTensorView arrived;   ///< what the receiver goes on with
};

/// Message keys, random streams, order and coverage are those of ParallelTrainer with the same configuration; each replica has codec state
/// of its own. The micro-batches of a step must come in the order of the global batch (samples from 0 on).
class BoundaryCompression {
 public:
  /// UsageError for what a single process cannot repeat: tensor parallelism, another schedule than 1f1b, the released form, dense messages rounded to another
  /// type than f32, compressed activations, and a rule without codec.
  explicit BoundaryCompression(const TrainConfig& config);
  BoundaryCompression(const BoundaryCompression&) = delete;
  BoundaryCompression& operator=(const BoundaryCompression&) = delete;

  using Watcher = std::function<void(const BoundaryMessage&)>;
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

  /// Replaces the gradient in front of `layer` (BoundaryHook) by what would arrive, where that is a covered boundary. Gradients
  /// must come from the micro-batch's share of the loss of the global batch, as in Trainer::step; a replica's pipeline sees its own share.
  void exchange(int layer, const PassContext& pass, Tensor& gradient);
  /// Bound to this object, for Stage::at_boundaries.
  BoundaryHook hook() {
    return [this](int layer, const PassContext& pass, Tensor& gradient) { exchange(layer, pass, gradient); };
  }

 private:
  int layers_per_stage_, micro_batches_;
  std::int64_t micro_batch_;
  RuleCoverage coverage_;
  std::vector<CodecStack> stacks_;  ///< by replica; state inside is keyed by boundary
  MessageScratch scratch_;
  Tensor before_;
  Buffer payload_;
  Watcher watcher_;
};

}  // namespace thinwire
