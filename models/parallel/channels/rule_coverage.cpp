#include "models/parallel/channels/rule_coverage.h"

#include "models/parallel/channels/epilogue.h"

namespace thinwire {

RuleCoverage::RuleCoverage(TrafficClass traffic, const CompressRule& rule, int stages, int micro_batches)
    : rule_(rule),
      active_(compresses(rule.codec)),
      pipeline_stages_(stages),
      micro_batches_(micro_batches),
      layers_(NumberRanges::parse("compress." + name_of(traffic) + ".layers", rule.layers)),
      stages_(NumberRanges::parse("compress." + name_of(traffic) + ".stages", rule.stages)) {}

bool RuleCoverage::covers(int layer, int stage, const MessageKey& key, std::int64_t elements) const {
  if (!active_ || elements < rule_.min_elements) return false;
  const bool evaluates = key.pass == Pass::evaluate;
  if (evaluates && !rule_.at_evaluation) return false;
  if ((evaluates ? key.trained_steps : key.step) < rule_.warmup_steps) return false;
  if (rule_.epilogue_only && !in_epilogue(key.micro_batch, stage, pipeline_stages_, micro_batches_)) return false;
  return layers_.contains(layer) && stages_.contains(stage);
}

}  // namespace thinwire
