// All channels of one rank of a trainer but those of a tensor grid: opened in one order, metered, saved and restored together.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator/process_mesh.h"
#include "models/parallel/gradient/gradient_sync.h"
#include "models/parallel/pipeline/pipeline.h"
#include "models/training/config/train_config.h"
#include "models/parallel/channels/channel_pair.h"

namespace thinwire {

class TrainerChannels {
 public:
  /// Collective over `world` (every channel over its group); under the placement of the trainer's tensors. Dense messages travel in `wire`,
  /// exact ones in `exact`. `config` outlives the pairs.
  TrainerChannels(Communicator& world, ProcessMesh& mesh, const TrainConfig& config, DType wire, DType exact);
  TrainerChannels(const TrainerChannels&) = delete;
  TrainerChannels& operator=(const TrainerChannels&) = delete;

  // Null where the configuration does not need them.
  ChannelPair *tensor_forward = nullptr, *tensor_backward = nullptr;  ///< of 1-D tensor parallelism
  Channel* look_up = nullptr;                                         ///< likewise: embeddings in the wire type
  Channel* tensor_control = nullptr;                                  ///< exact, over the tensor group
  BoundaryChannels boundary;
  GradientChannels gradient;

  /// Sums of host numbers over all ranks, in place; `step` names the messages.
  void sum_over_mesh(std::span<double> values, std::int64_t step);

  void set_compute(ComputeMode mode, double scale);
  void omit(const std::set<TrafficClass>& classes);
  void drain_link(LinkDrain* drain);
  void take_records(std::vector<TrafficRecord>& records);
  /// State of every coded channel, by a name that is unique on the rank; and back: CorruptData where one is missing.
  void save_states(std::map<std::string, std::vector<std::byte>>& to) const;
  void load_states(const std::map<std::string, std::vector<std::byte>>& from);

 private:
  ChannelPair* open_pair(const char* name, Communicator& group, TrafficClass traffic, bool average = false, bool kept = false);
  Channel* open_channel(Communicator& group, TrafficClass traffic, DType type);
  void open_embedding(Communicator& world, ProcessMesh& mesh);

  const TrainConfig& config_;
  DType wire_;
  std::vector<std::unique_ptr<ChannelPair>> pairs_;
  std::vector<std::string> pair_names_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<Channel*> sum_channels_;  ///< over tensor, pipeline and replica group in turn: f64 on the host
  std::unique_ptr<Communicator> embedding_group_;
};

}  // namespace thinwire
