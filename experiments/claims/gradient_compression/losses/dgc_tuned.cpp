// gradient_compression.C23d: C23c with a learning rate of DGC's own, chosen as the dense arm's is: C23c gives both the rate that is best for the dense arm.
#include "experiments/claims/trained.h"

namespace thinwire::claims {
namespace {

constexpr int steps = 1000;

Comparison two_replicas() {
  Comparison c = on_replicas("2 replicas, momentum descent, each at its own rate", 2, steps);
  c.cell.parameters.set("optimizer", "sgd:momentum=0.9");
  c.cell.tags = {"gradient_compression", "losses"};
  return c;
}

const RuleArm dense{"dense", {}};
const RuleArm dgc{"DGC", {{"optimizer", "dgc:momentum=0.9"}, {"compress.dp_gradient", "sampled_topk:fraction=0.001,ramp_steps=" + std::to_string(steps / 20)}}};

const bool registered = register_loss_claim({.claim = {.id = "gradient_compression.C23d",
                                                       .statement = "Deep gradient compression sends a thousandth without loss, at a learning rate of its own.",
                                                       .provenance = "read: abstract of DGC (accuracy of image and speech models); derived (a GPT's loss)",
                                                       .from = Profile::standard,
                                                       .rule = {.constants = {{"within", 0.01, "of the dense loss"}, smallest_on_replicas},
                                                                .scatter = {{"lost", "within", "smallest"}},
                                                                .clauses = {{Verdict::confirmed, "lost.high <= within"}, {Verdict::not_reproduced, "lost.low > within"}},
                                                                .smallest_effect = "smallest"},
                                                       .seeds = {3, 5},
                                                       .figure = "replica_losses"},
                                             .comparison = two_replicas(),
                                             .arms = {dense, dgc},
                                             .differences = {loss_difference("lost", dgc.name, dense.name)},
                                             .tuning = {.option = "learning-rate", .values = {{dense.name, {"0.1", "0.2", "0.4"}}, {dgc.name, {"0.025", "0.05", "0.1", "0.2", "0.4"}}}}});

}  // namespace
}  // namespace thinwire::claims
