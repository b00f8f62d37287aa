// Training of a GPT over a (tensor, pipeline, data) mesh of ranks. Every tensor that crosses a link goes through a Channel.
#pragma once

#include <memory>
#include <vector>

#include "collectives/channel/channel.h"
#include "models/data/batches.h"
#include "models/parallel/channels/traffic_record.h"
#include "models/store/state_slot.h"
#include "models/training/config/train_config.h"
#include "models/training/evaluation.h"
#include "models/update/norm_scope.h"

namespace thinwire {

/// One optimizer step as this rank saw it; loss and norm are equal on all ranks.
struct StepRecord {
  std::int64_t step = 0;  ///< number of the step, from 0
  double loss = 0;        ///< mean over the global batch, nats per token
  double gradient_norm = 0, learning_rate = 0;
  double seconds = 0;     ///< wall time of this rank
  double compute_us = 0;  ///< model and optimizer work
  double forward_us = 0, backward_us = 0;  ///< of it, in the passes through this rank's layers, all micro-batches
  std::vector<double> slice_forward_us, slice_backward_us;  ///< the same by slice, where micro-batches are cut into slices; else empty
  double wait_us = 0;     ///< blocked on the pipeline or on a reduction
  std::int64_t tokens = 0;
  NormScope norm_scope = NormScope::all;  ///< over which ranks the update took the norm
  std::vector<TrafficRecord> traffic;
};

/// Collective over `world` unless said otherwise. Float type by config.dtype.
class ParallelTrainer {
 public:
  /// UsageError when the mesh does not fit the launch, or sizes do not divide.
  static std::unique_ptr<ParallelTrainer> make(Communicator& world, const TrainConfig& config, DataSource data);
  /// On windows of a text, which outlives the trainer.
  static std::unique_ptr<ParallelTrainer> make(Communicator& world, const TrainConfig& config, const Corpus& corpus);
  virtual ~ParallelTrainer() = default;

  /// One optimizer step. Diverged with step and rank when loss or gradient is not finite, or a codec cannot send what it is given (NotRepresentable): then on the rank
  /// that was to send it, whose end is that of the others, which may be waiting.
  virtual StepRecord step() = 0;
  /// Of the validation data; leaves no trace in codecs or weights. Diverged, on all ranks, where a prediction that a metric judges is not finite.
  virtual Evaluation evaluate() = 0;
  /// The mean validation loss alone, in nats per token.
  double validate() { return evaluate().loss; }
  virtual std::int64_t steps_taken() const = 0;
  /// How compute runs from the next step on: ComputeMode::serial, then replay (design section 4). Numbers of a replayed run mean
  /// nothing; its times do.
  virtual void set_compute(ComputeMode mode) = 0;
  /// For timed steps over a token-bucket link: every channel spends the bucket before it sends. `drain` must outlive the trainer.
  virtual void drain_link(LinkDrain* drain) = 0;
  virtual ProcessMesh& mesh() = 0;

  // For checkpoints (models/training/checkpoint/checkpoint.h).
  /// Everything that the weights and the optimizer of this rank consist of.
  virtual std::vector<StateSlot> state_slots() = 0;
  /// The slots hold the state after `steps` steps. `replicas_anew`: but for those that each replica has of its own, which begin again. Collective over `world`.
  virtual void state_loaded(std::int64_t steps, bool replicas_anew) = 0;
  /// What the update keeps besides slots (UpdatePolicy::numbers), equal on all ranks; to be given back before state_loaded().
  virtual std::map<std::string, double> update_numbers() const = 0;
  virtual void set_update_numbers(const std::map<std::string, double>& numbers) = 0;
  /// SHA-256 of the text that it trains on.
  virtual const std::string& corpus_hash() const = 0;
  /// State of every coded channel of this rank, by a name that is unique on the rank and equal after a restart on the same layout.
  virtual std::map<std::string, std::vector<std::byte>> codec_state() const = 0;
  virtual void load_codec_state(const std::map<std::string, std::vector<std::byte>>& state) = 0;
};

/// Bytes of one rank in closed form, for --show-memory. Activations: the most micro-batches alive at once on this stage.
struct MemoryEstimate {
  std::int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  std::int64_t codecs = 0;  ///< what wrappers of the gradients' and the weights' codecs remember: error feedback's residuals, copies that changes are sent to
  std::int64_t total() const { return weights + gradients + optimizer + activations + workspace + codecs; }
};
MemoryEstimate estimate_memory(const TrainConfig& config, const MeshCoordinates& at);

}  // namespace thinwire
