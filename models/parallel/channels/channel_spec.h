// A channel that a parameter store or an update policy asks for. The trainer opens all of them, in the order of the lists, and meters,
// saves and restores them with its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "collectives/channel/traffic.h"
#include "models/parallel/channels/channel_level.h"

namespace thinwire {

class ChannelPair;


struct ChannelSpec {
  std::string name = {};  ///< unique on the rank; equal on all ranks of the group; names the codecs' state in checkpoints
  TrafficClass traffic = TrafficClass::control;
  std::string group = {};  ///< a group of the process mesh (ProcessMesh::group); empty: `ranks`
  std::vector<std::vector<int>> ranks = {};  ///< of the world, group by group; ranks in none of them get no channel
  bool average = false;                      ///< reductions are means
  bool reuse_payloads = false;               ///< ChannelOptions::reuse_payloads of the coded channel
  ChannelLevel level = ChannelLevel::whole;  ///< `inside` codes by CompressRule::inside
};

/// By name. Specs whose group has one rank, or not this one, open none.
using NamedChannels = std::map<std::string, ChannelPair*>;

inline ChannelPair* find_channel(const NamedChannels& channels, const std::string& name) {
  const auto found = channels.find(name);
  return found == channels.end() ? nullptr : found->second;
}

}  // namespace thinwire
