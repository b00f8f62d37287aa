// Carries out a pipeline schedule on one rank: the only executor of models/parallel/schedule/.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "collectives/communicator/process_mesh.h"
#include "models/compute/recorded_passes.h"
#include "models/parallel/channels/channel_pair.h"
#include "models/parallel/schedule/lower.h"
#include "models/stage/stage.h"
#include "models/stage/unit_events.h"
#include "models/training/config/train_config.h"

namespace thinwire {

/// What a stage exchanges over. `forward` and `backward` connect the stages of a pipeline group; the gathers, present with scattered
/// boundaries, the ranks of a tensor group.
struct BoundaryChannels {
  ChannelPair *forward = nullptr, *backward = nullptr;
  Channel *gather_forward = nullptr, *gather_backward = nullptr;
};

/// Who acts on the instructions of a lowered schedule that compute nothing. Null where schedules have none.
struct UnitActors {
  UnitGathers* gathers = nullptr;
  UnitReductions* reductions = nullptr;
};

template <typename T>
class Pipeline {
 public:
  /// `chunks`: the virtual stages of this rank, in model order. What is pointed to outlives the pipeline.
  Pipeline(const TrainConfig& config, const MeshCoordinates& at, std::vector<Stage<T>*> chunks, const BoundaryChannels& pairs, const UnitActors& actors,
           ComputeClock& clock);

  /// Runs every micro-batch forward and backward as the lowered `schedule` says; *loss (where the thread computes) += the sum over micro-batches
  /// of their mean loss times their share of the global batch (Batch::weight) times the replicas, over which gradients and losses are then
  /// averaged; nothing without the head.
  void train(const Schedule& schedule, std::uint64_t step, const std::vector<Batch>& micro_batches, double* loss);
  /// By a schedule that was lowered without backward passes, leaving no trace. `round` distinguishes the messages of several calls.
  /// metrics[2 k], metrics[2 k + 1] += numerator and weight of Stage::metrics()[k], where the thread computes. predicted[0 ..]: with the head, what it says
  /// of each sample of the micro-batches (Stage::predicted()), on the host; UsageError where it says nothing.
  void evaluate(const Schedule& schedule, int round, std::int64_t trained_steps, const std::vector<Batch>& micro_batches, double* loss, double* metrics = nullptr, double* predicted = nullptr);
  /// Microseconds blocked in receives and unfinished sends since the last reset, codec work excluded.
  double waited_us = 0;
  double forward_us = 0, backward_us = 0;  ///< computing in forward and backward passes (ComputeClock), without communication
  std::vector<double> slice_forward_us, slice_backward_us;  ///< of it, by slice, where micro-batches are cut into slices
  void reset_times();

 private:
  using Saved = typename Stage<T>::Saved;
  struct InFlight {
    Operation operation, probe;          ///< the message, and on some steps its dense baseline
    Saved* activations = nullptr;  ///< given back when both are done
    std::unique_ptr<Tensor> gradient;
  };
  struct Slot {
    int chunk, micro, slice;
    auto operator<=>(const Slot&) const = default;
  };
  static Slot slot_of(const Instruction& i) { return {i.chunk, i.micro, i.slice}; }

  /// Instructions [first, last] of a list: passes through neighbouring units that run as one.
  struct JoinedPass {
    const Instruction& first;
    const Instruction& last;
  };
  void run(const Schedule& schedule, bool backward, const PassContext& pass, const std::vector<Batch>& batches, double* loss);
  void act(const Instruction& i);
  void receive_forward(const Instruction& i, const PassContext& pass);
  void send_forward(const Instruction& i, const PassContext& pass);
  void receive_backward(const Instruction& i, const PassContext& pass);
  void send_backward(const Instruction& i, const PassContext& pass);
  void forward(const JoinedPass& joined, const PassContext& pass, const Batch& sequences, double* loss);
  void backward(const JoinedPass& joined);
  /// An evaluation is done with a micro-batch when its output has arrived where it goes to, or where it goes nowhere.
  void release_evaluated(const Instruction& i);
  void wait(Operation operation);
  void reap(bool all);
  Saved& activations(const Slot& slot);
  Stage<T>& chunk_of(const Instruction& i) const { return *chunks_[static_cast<std::size_t>(i.chunk)]; }
  int layer_of(const Instruction& i) const { return chunk_of(i).units()[index(i.unit)].layer; }
  static std::size_t index(int unit) { return static_cast<std::size_t>(unit); }
  void free_activations(int items);
  /// Keys and values of a micro-batch that is cut into slices: from its first slice's forward pass on, until its first slice's backward
  /// pass, or without one its last slice's forward pass.
  PrefixCache& prefix(const Slot& slot);
  void drop_prefix(const Slot& slot);
  /// The pass over a slice of a micro-batch.
  PassContext sliced(PassContext pass, int slice) const;
  std::unique_ptr<Tensor> gradient_buffer();
  bool compares(const PassContext& pass) const;
  /// Layer in front of which a chunk begins or after which it ends: the boundary's number.
  int first_layer(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)]->part().first_layer; }
  int behind(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)]->part().end_layer(); }
  /// Valid until the next one, and as long as the batch.
  MessageKey key(int boundary, int micro, const PassContext& pass);
  /// Rows of a boundary tensor that this rank sends or receives.
  RowBlock travelling(const PassContext& pass) const;
  /// Shape of a boundary tensor on this rank.
  Shape boundary_shape(const PassContext& pass) const { return chunks_[0]->boundary(pass); }
  /// Swaps the two outer axes of a gradient [outer, inner, hidden] (rows outer * inner): batch-major to position-major and back.
  std::unique_ptr<Tensor> swapped(std::unique_ptr<Tensor> gradient, std::int64_t outer, std::int64_t inner, const Instruction& i);
  void gather(Channel* channel, Tensor& part, Tensor& whole, const PassContext& pass, const MessageKey& key);

  const TrainConfig& config_;
  MeshCoordinates at_;
  std::vector<Stage<T>*> chunks_;
  BoundaryChannels pairs_;
  UnitActors actors_;
  double *metrics_ = nullptr, *predicted_ = nullptr;  ///< of the evaluation that runs
  ComputeClock& clock_;
  bool scatters_, positions_first_, names_tokens_;
  std::vector<int> slices_;  ///< tokens of each slice; one entry: whole sequences
  std::vector<std::int64_t> slice_begins_;
  std::vector<std::int32_t> cut_tokens_;  ///< what the latest key names, where micro-batches are cut into slices
  std::map<std::pair<int, int>, std::unique_ptr<PrefixCache>> prefixes_;  ///< by chunk and micro-batch
  std::vector<std::unique_ptr<PrefixCache>> spare_prefixes_;
  std::vector<std::unique_ptr<Saved>> owned_;  ///< all of one kind of stage: any serves any chunk
  std::map<Slot, Saved*> live_;
  std::vector<Saved*> free_;
  std::map<Slot, Batch> parts_;  ///< of live slots: their slice of the batch
  std::map<Slot, std::unique_ptr<Tensor>> gradients_;
  std::vector<std::unique_ptr<Tensor>> spare_;
  std::deque<InFlight> in_flight_;
  std::map<int, int> reductions_left_;  ///< of this step, by unit
  Tensor part_;
  RecordedPasses recorded_;
};

}  // namespace thinwire
