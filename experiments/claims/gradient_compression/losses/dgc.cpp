// gradient_compression.C23c: what deep gradient compression's thousandth costs in loss, against momentum descent on whole gradients, and what its parts are for: the warm-up of the density, and momentum
// that is corrected for what was sent late (without it: momentum of what arrived, plain error feedback).
#include "experiments/claims/trained.h"

namespace thinwire::claims {
namespace {

constexpr int steps = 1000;

Comparison two_replicas() {
  Comparison c = on_replicas("2 replicas, momentum descent", 2, steps);
  c.cell.parameters.set("learning-rate", 0.2);  // the best one of a pilot of the dense arm
  c.cell.parameters.set("optimizer", "sgd:momentum=0.9");
  c.cell.tags = {"gradient_compression", "losses"};
  return c;
}

/// The published warm-up: density falls to a thousandth over the first four of seventy to ninety epochs.
const std::string sparse = "sampled_topk:fraction=0.001", ramped = sparse + ",ramp_steps=" + std::to_string(steps / 20);

const RuleArm dense{"dense", {}};
const RuleArm dgc{"DGC", {{"optimizer", "dgc:momentum=0.9"}, {"compress.dp_gradient", ramped}}};
const RuleArm at_once{"DGC without warm-up", {{"optimizer", "dgc:momentum=0.9"}, {"compress.dp_gradient", sparse}}};
const RuleArm uncorrected{"error feedback in place of momentum correction", {{"compress.dp_gradient", ramped + "+ef"}}};

const bool registered = register_loss_claim({{.id = "gradient_compression.C23c",
                                              .statement = "Deep gradient compression sends a thousandth without loss.",
                                              .provenance = "read: abstract of DGC (accuracy of image and speech models); derived (a GPT's loss)",
                                              .from = Profile::standard,
                                              .rule = {.constants = {{"within", 0.01, "of the dense loss"}, smallest_on_replicas},
                                                       .scatter = {{"lost", "within", "smallest"}},
                                                       .clauses = {{Verdict::confirmed, "lost.high <= within"}, {Verdict::not_reproduced, "lost.low > within"}},
                                                       .smallest_effect = "smallest"},
                                              .seeds = {3, 5},
                                              .figure = "replica_losses"},
                                             two_replicas(),
                                             {dense, dgc, at_once, uncorrected},
                                             {loss_difference("lost", dgc.name, dense.name), loss_difference("warm_up", at_once.name, dgc.name), loss_difference("correction", uncorrected.name, dgc.name)}});

}  // namespace
}  // namespace thinwire::claims
