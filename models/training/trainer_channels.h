// All channels of one rank of a trainer but those of a tensor grid: opened in one order, metered, saved and restored together.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator/process_mesh.h"
#include "models/parallel/channels/channel_spec.h"
#include "models/parallel/pipeline/pipeline.h"
#include "models/training/config/train_config.h"
#include "models/update/norm_scope.h"
#include "models/parallel/channels/channel_pair.h"

namespace thinwire {

class TrainerChannels {
 public:
  /// Collective over `world` (every channel over its group); under the placement of the trainer's tensors. Dense messages travel in
  /// TrainConfig::wire, exact ones in `exact`. `wanted`: what parameter store and update policy ask for, the same list on all ranks of a group. `config` outlives
  /// the pairs.
  TrainerChannels(Communicator& world, ProcessMesh& mesh, const TrainConfig& config, std::span<const ChannelSpec> wanted, DType exact);
  TrainerChannels(const TrainerChannels&) = delete;
  TrainerChannels& operator=(const TrainerChannels&) = delete;

  // Null where the configuration does not need them.
  ChannelPair *tensor_forward = nullptr, *tensor_backward = nullptr;  ///< of 1-D tensor parallelism
  Channel* look_up = nullptr;                                         ///< likewise: embeddings in the wire type
  Channel* tensor_control = nullptr;                                  ///< exact, over the tensor group
  BoundaryChannels boundary;
  ChannelPair* local_boundary = nullptr;  ///< pp_backward from this rank to itself (models/parallel/pipeline/local_boundaries.h)
  NamedChannels named;  ///< those that were wanted, where this rank has anybody to talk to

  /// Sums of host numbers, in place: over tensor and pipeline ranks (`model`), of these sums over the data-parallel ranks of a replica
  /// (`replica`), of these over the replicas of the data axis (`all`). `step` names the messages.
  void sum_over(NormScope level, std::span<double> values, std::int64_t step);
  void sum_over_mesh(std::span<double> values, std::int64_t step) {
    for (const NormScope level : {NormScope::model, NormScope::replica, NormScope::all}) sum_over(level, values, step);
  }

  void set_compute(ComputeMode mode, double scale);
  void omit(const std::set<TrafficClass>& classes);
  void drain_link(LinkDrain* drain);
  void take_records(std::vector<TrafficRecord>& records);
  /// State of every coded channel, by a name that is unique on the rank; and back: CorruptData where one is missing.
  void save_states(std::map<std::string, std::vector<std::byte>>& to) const;
  void load_states(const std::map<std::string, std::vector<std::byte>>& from);

 private:
  ChannelPair* open_pair(const std::string& name, Communicator& group, const ChannelSpec& spec, bool kept = false, int small_at_once = 0);
  Channel* open_channel(Communicator& group, TrafficClass traffic, DType type);
  void open_wanted(Communicator& world, ProcessMesh& mesh, std::span<const ChannelSpec> wanted);

  const TrainConfig& config_;
  std::vector<std::unique_ptr<ChannelPair>> pairs_;
  std::vector<std::string> pair_names_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::map<NormScope, std::vector<Channel*>> sum_channels_;  ///< of each level, in turn: f64 on the host
  std::vector<std::unique_ptr<Communicator>> own_groups_;
};

}  // namespace thinwire
