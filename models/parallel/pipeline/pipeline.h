// Carries out a pipeline schedule on one rank: the only executor of models/parallel/schedule/.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "collectives/communicator/process_mesh.h"
#include "models/gpt/grid_gpt.h"
#include "models/compute/recorded_passes.h"
#include "models/parallel/schedule/schedule.h"
#include "models/training/config/train_config.h"

namespace thinwire {

/// What a stage exchanges over. `forward` and `backward` connect the stages of a pipeline group; the gathers, present with scattered
/// boundaries, the ranks of a tensor group.
struct BoundaryChannels {
  ChannelPair *forward = nullptr, *backward = nullptr;
  Channel *gather_forward = nullptr, *gather_backward = nullptr;
};

/// `Model`: Gpt<T>, or GridGpt<T>, whose boundary tensors are shards.
template <typename T, typename Model = Gpt<T>>
class Pipeline {
 public:
  /// `chunks`: the virtual stages of this rank, in model order.
  Pipeline(const TrainConfig& config, const MeshCoordinates& at, std::vector<Model*> chunks, const BoundaryChannels& pairs,
           ComputeClock& clock);

  using LayerDone = std::function<void(int layer)>;
  /// Runs every micro-batch forward and backward; *loss (where the thread computes) += the sum over micro-batches of the loss / their
  /// number (nothing without the head). `layer_done` is called when a layer has seen its last micro-batch; `between` after every instruction.
  void train(const Schedule& schedule, std::uint64_t step, const std::vector<TokenBatch>& micro_batches, double* loss,
             const LayerDone& layer_done, const std::function<void()>& between);
  /// Forward only, leaving no trace. `round` distinguishes the messages of several calls.
  void evaluate(const Schedule& schedule, int round, const std::vector<TokenBatch>& micro_batches, double* loss);
  /// Microseconds blocked in receives and unfinished sends since the last reset, codec work excluded.
  double waited_us = 0;
  double forward_us = 0, backward_us = 0;  ///< computing in forward and backward passes (ComputeClock), without communication
  std::vector<double> slice_forward_us, slice_backward_us;  ///< of it, by slice, where micro-batches are cut into slices
  void reset_times();

 private:
  using Activations = typename Model::Activations;
  struct InFlight {
    Operation operation, probe;          ///< the message, and on some steps its dense baseline
    Activations* activations = nullptr;  ///< given back when both are done
    std::unique_ptr<Tensor> gradient;
  };
  struct Slot {
    int chunk, micro, slice;
    auto operator<=>(const Slot&) const = default;
  };
  static Slot slot_of(const Instruction& i) { return {i.chunk, i.micro, i.slice}; }

  void run(const Schedule& schedule, bool backward, PassContext pass, const std::vector<TokenBatch>& batches, double* loss,
           const LayerDone& layer_done, const std::function<void()>& between);
  void receive_forward(const Instruction& i, const PassContext& pass);
  void send_forward(const Instruction& i, const PassContext& pass);
  void receive_backward(const Instruction& i, const PassContext& pass);
  void send_backward(const Instruction& i, const PassContext& pass);
  void forward(const Instruction& i, PassContext pass, const TokenBatch& batch, int micro_batches, double* loss);
  void run_forward(Model& chunk, const Instruction& i, const PassContext& pass, const TokenBatch& batch, double share, Activations& saved);
  void backward(const Instruction& i, const TokenBatch& batch, const LayerDone& layer_done);
  void wait(Operation operation);
  void reap(bool all);
  Activations& activations(const Slot& slot);
  void free_activations(int items);
  /// Keys and values of a micro-batch that is cut into slices: from its first slice's forward pass on, until its first slice's backward
  /// pass, or without one its last slice's forward pass.
  PrefixCache& prefix(const Slot& slot);
  void drop_prefix(const Slot& slot);
  /// The pass over a slice of a micro-batch, and its tokens.
  PassContext sliced(PassContext pass, int slice) const;
  static TokenBatch slice_tokens(const TokenBatch& batch, const PassContext& pass);
  std::unique_ptr<Tensor> gradient_buffer();
  bool compares(const PassContext& pass) const;
  /// Layer in front of which a chunk begins or after which it ends: the boundary's number.
  int first_layer(int chunk) const { return chunks_[static_cast<std::size_t>(chunk)]->part().first_layer; }
  int behind(int chunk) const { return first_layer(chunk) + chunks_[static_cast<std::size_t>(chunk)]->part().layers; }
  MessageKey key(int boundary, int micro, const PassContext& pass) const;
  /// Rows of a boundary tensor that this rank sends or receives.
  RowBlock travelling(const PassContext& pass) const;
  /// Shape of a boundary tensor on this rank.
  Shape boundary_shape(const PassContext& pass) const;
  /// Swaps the two outer axes of a gradient [outer, inner, hidden] (rows outer * inner): batch-major to position-major and back.
  std::unique_ptr<Tensor> swapped(std::unique_ptr<Tensor> gradient, std::int64_t outer, std::int64_t inner, const Instruction& i);
  void gather(Channel* channel, Tensor& part, Tensor& whole, const PassContext& pass, const MessageKey& key);

  const TrainConfig& config_;
  MeshCoordinates at_;
  std::vector<Model*> chunks_;
  BoundaryChannels pairs_;
  ComputeClock& clock_;
  bool scatters_, positions_first_;
  std::vector<int> slices_;  ///< tokens of each slice; one entry: whole sequences
  std::vector<std::int64_t> slice_begins_;
  mutable std::vector<std::int64_t> samples_;  ///< of the last key()
  std::map<std::pair<int, int>, std::unique_ptr<PrefixCache>> prefixes_;  ///< by chunk and micro-batch
  std::vector<std::unique_ptr<PrefixCache>> spare_prefixes_;
  std::vector<std::unique_ptr<Activations>> owned_;
  std::map<Slot, Activations*> live_;
  std::vector<Activations*> free_;
  std::map<Slot, std::unique_ptr<Tensor>> gradients_;
  std::vector<std::unique_ptr<Tensor>> spare_;
  std::deque<InFlight> in_flight_;
  std::vector<int> backward_left_;
  Tensor part_;
  RecordedPasses recorded_;
};

}  // namespace thinwire
