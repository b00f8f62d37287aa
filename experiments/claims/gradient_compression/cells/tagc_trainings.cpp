#include "experiments/claims/gradient_compression/cells/tagc_trainings.h"

namespace thinwire::claims::gradient_compression {

Comparison fsdp_training(std::int64_t width) {
  Comparison c = on_replicas("2 replicas, FSDP, hidden " + std::to_string(width), 2, 2000);
  c.cell.parameters.set("hidden", width);
  c.cell.parameters.set("zero-stage", 3);
  c.cell.tags = {"gradient_compression", "losses"};
  return c;
}

std::vector<RuleArm> fsdp_arms(std::int64_t width) {
  return {{"FSDP", {}}, tagc(tagc_release, width), tagc({.ladder = true}, width), tagc(tagc_smallest, width)};
}

}  // namespace thinwire::claims::gradient_compression
