// Which messages of a traffic class a compression rule covers. Every rank asks with the same numbers, so both ends decide alike.
#pragma once

#include <limits>

#include "kernels/codec/codec.h"
#include "models/parallel/channels/compress_rule.h"
#include "models/parallel/channels/number_ranges.h"

namespace thinwire {

class RuleCoverage {
 public:
  /// `stages`, `micro_batches`: of the pipeline and of one step, what CompressRule::epilogue_only goes by. UsageError for layers or stages
  /// that cannot be read.
  RuleCoverage(TrafficClass traffic, const CompressRule& rule, int stages, int micro_batches);
  /// `layer`: of the message (a boundary counts as the layer behind it); `stage`: of its sender, or of the group; `elements`: of the matrix.
  bool covers(int layer, int stage, const MessageKey& key, std::int64_t elements = std::numeric_limits<std::int64_t>::max()) const;
  /// Before this step messages travel dense, and in evaluations after fewer steps.
  std::int64_t first_step() const { return rule_.warmup_steps; }

 private:
  CompressRule rule_;
  bool active_;
  int pipeline_stages_, micro_batches_;
  NumberRanges layers_, stages_;
};

}  // namespace thinwire
