#include "models/training/config/released_form.h"

#include <string>

#include "core/error.h"
#include "kernels/codec/registry.h"

namespace thinwire {

bool sends_positions_first(const TrainConfig& config) {
  const auto rule = config.compress.find(TrafficClass::pp_backward);
  if (config.form != Form::released || rule == config.compress.end() || !rule->second.active()) return false;
  const CodecExpression codec = parse_codec(rule->second.codec);
  return codec_info(codec.codec.name).has_released_form && make_codec(codec, config.form).codec->traits().positions_first;
}

CompressRule rule_in_form(const TrainConfig& config, TrafficClass traffic) {
  const auto found = config.compress.find(traffic);
  if (found == config.compress.end()) return {};
  CompressRule rule = found->second;
  if (traffic != TrafficClass::pp_backward || !sends_positions_first(config)) return rule;
  CodecExpression codec = parse_codec(rule.codec);
  const std::string rows = make_codec(codec, config.form).codec->traits().rows_parameter;
  if (codec.codec.parameters.integer(rows) == 0) codec.codec.parameters.set(rows, std::to_string(config.seq * (config.micro_batch / 8)));
  rule.codec = codec.canonical();
  return rule;
}

void check_released(const TrainConfig& config) {
  if (!sends_positions_first(config)) return;
  const std::string where = "the released form of " + parse_codec(config.compress.at(TrafficClass::pp_backward).codec).codec.name + " on pp_backward ";
  if (config.micro_batch % 8 != 0)
    throw UsageError(where + "sees a message as seq * (micro-batch / 8) rows, so the micro-batch must be a multiple of 8; it is " +
                     std::to_string(config.micro_batch) + " (--micro-batch, or --form fair)");
  if (config.sequence_parallel && config.mesh.tp > 1)
    throw UsageError(where + "knows no sequence parallelism; use --scatter-gather true, or --form fair");
}

}  // namespace thinwire
