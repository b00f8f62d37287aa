// How gradients are averaged over the ranks of a replica, overlapped with the backward pass, and so laid down where the parameter store's
// parts are updated.
//
// A gradient travels by itself when a rule compresses it (a codec sees the matrix), when the store shards it, or when it is as
// large as a bucket; the rest is packed into buckets in the order of the backward pass. Vectors, less than one percent of the
// elements, are compressed and sharded only as members of a flat parameter, with its matrices. Compressed matrices of one shape may travel as one stack
// (CompressRule::stacked). In a pipeline the tied token table is synchronised apart (tied_table.h); where the store shards it, it is reduce-scattered here
// as any matrix, and what is apart is the sum over its two stages.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <vector>

#include "models/parallel/channels/row_exchange.h"
#include "models/store/memory_pool.h"
#include "models/store/parameter_store.h"
#include "models/training/config/train_config.h"
#include "models/parallel/gradient/tensor_replicated.h"
#include "models/parallel/gradient/tied_table.h"

namespace thinwire {

/// What GradientSync sends over: dp_gradient, grad_reduce_scatter where the store shards gradients, and the tied table's.
std::vector<ChannelSpec> gradient_channels(const TrainConfig& config, ProcessMesh& mesh);
/// Of these the classes whose tensors a rule may compress: where gradients are sharded the vectors alone travel as dp_gradient.
std::set<TrafficClass> gradient_classes(const TrainConfig& config);

/// Gradients that travel as one message.
template <typename T>
struct GradientBucket {
  std::string name;
  std::vector<Parameter<T>*> members;
  int layer = 0;                 ///< of the rule: the last member's
  int open = 0;                  ///< members whose gradient is not complete
  bool late = false;             ///< summed over the tensor group first
  bool stacked = false;          ///< members are matrices of one shape, under one another in `flat`
  Tensor flat;                   ///< several members, packed
  const OwnedPart<T>* sharded = nullptr;  ///< reduce-scattered to this part's rows; null: all-reduced
  Tensor shard;                  ///< its rows as they arrive, where they cannot go to the part's gradient at once
  int arrived = 0;               ///< of a lent gradient: reductions of this step
  Operation operation;             ///< of an all-reduced bucket
  RowExchange::Ticket scattering;  ///< of a sharded one
  bool started = false;

  /// Reduced whenever its unit is (a step's first reduction arrives in the part's gradient, later ones are added), and its memory then goes back.
  bool lent() const { return sharded && sharded->lent; }
};

template <typename T>
class GradientSync {
 public:
  /// All of it outlives this object; `channels` are those of gradient_channels(), `tensor_control` is exact over the tensor group. `reduces`: which parts are averaged; empty: all. The
  /// gradients of others stay each rank's own.
  GradientSync(const TrainConfig& config, ProcessMesh& mesh, ParameterStore<T>& store, const NamedChannels& channels, Channel& tensor_control,
               ComputeClock& clock, const std::function<bool(const OwnedPart<T>&)>& reduces = {});

  void begin_step(std::int64_t step);
  /// A backward pass of this unit comes next: what travels of its gradients has arrived, and those that are lent have memory.
  void expect(int unit);
  /// Micro-batch `micro` has added its share to the gradients of this unit, `last` for this step: starts what can travel already. A lent gradient
  /// travels each time; before the next unit's does, it has arrived and its memory is free.
  void unit_done(int unit, int micro, bool last);
  /// Starts the rest and waits for everything; the gradients of the store's parts are then means over the replica's ranks.
  void finish();
  double waited_us = 0;

 private:
  void add(const OwnedPart<T>& part, bool alone, bool stacked, bool late);
  /// One matrix, or several stacked: what a rule may compress. A packed bucket never is.
  static bool of_matrices(const GradientBucket<T>& bucket);
  void start(GradientBucket<T>& bucket, int micro = 0);
  void complete_lent();
  void complete(GradientBucket<T>& bucket);
  bool reducer_zeroes_table() const;
  TensorView view_of(GradientBucket<T>& bucket);
  MessageKey key_of(const std::string& name) const;
  bool compares() const;

  const TrainConfig& config_;
  ParameterStore<T>& store_;
  MeshCoordinates at_;
  ChannelPair* gradient_;
  RowExchange scatter_;
  ComputeClock& clock_;
  TensorReplicated<T> replicated_, replicated_parts_;
  TiedTable<T> table_;
  double bucket_bytes_ = 0;  ///< up to which gradients are packed
  std::deque<GradientBucket<T>> buckets_;  ///< in the order of the backward pass
  std::vector<std::pair<int, GradientBucket<T>*>> owner_of_unit_;  ///< (unit, bucket), one entry per parameter
  MemoryPool spare_;  ///< for rows that are added to others
  Tensor compared_;
  std::int64_t step_ = 0;
};

}  // namespace thinwire
