// Which messages of a traffic class are compressed, and by what.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/channel/traffic.h"
#include "kernels/codec/registry.h"

namespace thinwire {

/// What compresses one traffic class, where, and when. Messages that no rule covers are sent uncompressed.
struct CompressRule {
  std::string codec = uncompressed;
  Protocol protocol = Protocol::automatic;
  std::string layers = "all";     ///< "all" or ranges of global layer numbers, "0-3,6"; a stage boundary counts as the layer behind it
  std::string stages = "all";     ///< likewise, pipeline stages (for pp: the sending stage)
  std::int64_t warmup_steps = 0;  ///< dense before this step, and in evaluations after fewer steps
  std::int64_t min_elements = 0;  ///< of gradients and weights over replicas: matrices with fewer on a rank travel dense (TAGC selects layers so)
  bool at_evaluation = true;      ///< whether validation sees the compressed forward pass
  bool stacked = false;           ///< dp_gradient: matrices of one shape travel as one message (low rank: two sums for all of them)
  bool epilogue_only = false;     ///< pp_backward: only the messages that nothing hides (models/parallel/channels/epilogue.h)
  bool overlap = true;            ///< grad_reduce_scatter: rows for one owner are encoded while those for another travel (ChannelOptions::overlap_blocks)
  std::string inside = uncompressed;  ///< of what a sharded run exchanges in two steps (--dp-nodes): between ranks of a node; `codec` between nodes
  bool active() const { return compresses(codec) || compresses(inside); }
};

}  // namespace thinwire
