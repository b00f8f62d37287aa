#include "bench/training/shared_start.h"

#include "core/sha256.h"
#include "models/stage/model_kind.h"
#include "models/training/config/train_options.h"

namespace thinwire::bench {

namespace {

/// Whether an option belongs to a compress rule, none of which has begun. How the trainer is built (compress.form) is no rule.
bool of_a_rule(const TrainOption& option) { return option.key.starts_with("compress.") && option.key != "compress.form"; }

}  // namespace

std::string shared_start_path(const TrainConfig& config, const std::string& program, const std::string& data_hash) {
  std::string decides = "program " + program + "\ndata " + data_hash + "\nsteps " + std::to_string(config.shared_start) + "\n";
  for (const TrainOption& option : train_options())
    if (option.on_resume != OnResume::free && !of_a_rule(option)) decides += option.flag + " " + option.get(config) + "\n";
  if (!config.from.empty()) decides += "from " + pretrained_content(config.model_kind, config.from) + "\n";  // a path says nothing of what lies there
  // Which gradients a rule will cover says from the first step on which travel alone and which in a bucket, and so in which order three and more are added up.
  if (const auto rule = config.compress.find(TrafficClass::dp_gradient); config.mesh.dp > 2 && rule != config.compress.end() && rule->second.active()) {
    const CompressRule& r = rule->second;
    decides += "gradients alone " + r.layers + " " + r.stages + " " + std::to_string(r.min_elements) + (r.stacked ? " stacked" : "") + "\n";
  }
  return config.shared_start_folder + "/" + sha256_hex(decides) + ".h5";
}

}  // namespace thinwire::bench
