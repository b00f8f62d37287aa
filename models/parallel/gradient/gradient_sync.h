// Data parallelism: how gradients are summed over replicas, overlapped with the backward pass, and how the optimizer's state is
// sharded over them.
//
// A gradient travels by itself when a rule compresses it (a codec sees the matrix), when the optimizer is sharded, or when it is as
// large as a bucket; the rest is packed into buckets in the order of the backward pass. Vectors, less than one percent of the
// elements, are never compressed and never sharded. Compressed matrices of one shape may travel as one stack (CompressRule::stacked). In a pipeline the tied token table is synchronised apart (class `embedding`).
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "models/compute/compute_clock.h"
#include "models/gpt/gpt.h"
#include "models/optimizer/optimizer.h"
#include "models/training/config/train_config.h"
#include "models/parallel/channels/channel_pair.h"

namespace thinwire {

/// A parameter of this rank and the layer whose backward pass completes its gradient.
template <typename T>
struct LayeredParameter {
  Parameter<T>* parameter = nullptr;
  int layer = 0;
};

/// The pairs that a replica group uses. Null pairs are not needed by the configuration.
struct GradientChannels {
  ChannelPair* gradient = nullptr;         ///< dp_gradient, averages
  ChannelPair* scatter = nullptr;          ///< grad_reduce_scatter, averages
  ChannelPair* gather = nullptr;           ///< param_all_gather
  ChannelPair* embedding_dp = nullptr;     ///< embedding, first step over replicas (sums), or fused over both
  ChannelPair* embedding_stages = nullptr; ///< second step over {first, last stage}; null when fused
  Channel* tensor_control = nullptr;       ///< sums of tensor-parallel replicas' gradients under sequence parallelism
};

template <typename T>
class GradientSync {
 public:
  /// `parameters` in the order of the forward pass. `table`: the tied table where it is synchronised apart, else null.
  GradientSync(const TrainConfig& config, const MeshCoordinates& at, const std::vector<LayeredParameter<T>>& parameters,
               Parameter<T>* table, const GradientChannels& pairs, ComputeClock& clock);

  /// What the optimizer of this rank updates.
  std::vector<OptimizerPart<T>> optimizer_parts();
  void begin_step(std::int64_t step);
  /// The gradients of this layer are complete: starts what can travel already.
  void layer_done(int layer);
  /// Starts the rest and waits for everything; gradients are then means over replicas.
  void finish();
  /// Sharded optimizer: every rank gets the others' updated rows.
  void gather_weights();
  /// Sharded optimizer: takes the weights as they are now as the full-precision ones (after a checkpoint was loaded).
  void adopt_weights();
  void progress();
  double waited_us = 0;

 private:
  struct Message {
    std::string name;
    std::vector<Parameter<T>*> members;
    int layer = 0;                 ///< of the rule: the last member's
    int open = 0;                  ///< members whose gradient is not complete
    bool late = false;             ///< summed over the tensor group first
    bool sharded = false;
    bool stacked = false;          ///< members are matrices of one shape, under one another in `flat`
    Tensor flat;                   ///< several members, packed
    Tensor shard, master;
    RowBlock rows{0, 0};
    Operation operation;
    bool started = false;
  };
  void add(const LayeredParameter<T>& p, bool alone, bool stacked, bool late);
  /// One matrix, or several stacked: what a rule may compress. A packed bucket never is.
  static bool of_matrices(const Message& message);
  void start(Message& message);
  void complete(Message& message);
  void sum_over_tensor_group();
  void start_embedding();
  bool reducer_zeroes_table() const;
  void finish_embedding();
  TensorView view_of(Message& message);
  MessageKey key_of(const std::string& name) const;
  void wait(Operation& operation);
  bool compares() const;
  ChannelPair& pair_of(const Message& message) { return message.sharded ? *pairs_.scatter : *pairs_.gradient; }

  const TrainConfig& config_;
  MeshCoordinates at_;
  GradientChannels pairs_;
  ComputeClock& clock_;
  Parameter<T>* table_;
  std::deque<Message> messages_;  ///< in the order of the backward pass
  std::vector<std::pair<int, Message*>> owner_of_layer_;  ///< (layer, message), one entry per parameter
  ParameterList<T> plain_, tensor_replicated_;
  Tensor tensor_sum_, compared_;
  std::int64_t step_ = 0;
  Operation table_operation_;
};

}  // namespace thinwire
