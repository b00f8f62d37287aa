// gradient_compression.C23c and C23d: what deep gradient compression's thousandth costs in loss, against momentum descent on whole gradients, at the dense arm's learning rate and at one of its own; and what its
// parts are for: the warm-up of the density, and momentum that is corrected for what was sent late (without it: momentum of what arrived, plain error feedback).
#include "experiments/claims/gradient_compression/losses/within_one_percent.h"

namespace thinwire::claims {
namespace {

constexpr int steps = 1000;

Comparison two_replicas(const std::string& more) {
  Comparison c = on_replicas("2 replicas, momentum descent" + more, 2, steps);
  c.cell.parameters.set("optimizer", "sgd:momentum=0.9");
  c.cell.tags = {"gradient_compression", "losses"};
  return c;
}

/// At the best rate of a pilot of the dense arm.
Comparison at_the_dense_rate() {
  Comparison c = two_replicas("");
  c.cell.parameters.set("learning-rate", 0.2);
  return c;
}

/// The published warm-up: density falls to a thousandth over the first four of seventy to ninety epochs.
const std::string sparse = "sampled_topk:fraction=0.001", ramped = sparse + ",ramp_steps=" + std::to_string(steps / 20);

const RuleArm dense{"dense", {}};
const RuleArm dgc{"DGC", {{"optimizer", "dgc:momentum=0.9"}, {"compress.dp_gradient", ramped}}};
const RuleArm at_once{"DGC without warm-up", {{"optimizer", "dgc:momentum=0.9"}, {"compress.dp_gradient", sparse}}};
const RuleArm uncorrected{"error feedback in place of momentum correction", {{"compress.dp_gradient", ramped + "+ef"}}};

Claim no_loss(const std::string& part, const std::string& where) {
  return {.id = "gradient_compression.C23" + part,
          .statement = "Deep gradient compression sends a thousandth without loss" + where + ".",
          .provenance = "read: abstract of DGC (accuracy of image and speech models); derived (a GPT's loss)",
          .from = Profile::standard,
          .rule = within_one_percent(),
          .seeds = {3, 5},
          .figure = "replica_losses"};
}

const LossDifference lost = loss_difference("lost", dgc.name, dense.name);

const bool at_one_rate = register_loss_claim({no_loss("c", ""), at_the_dense_rate(), {dense, dgc, at_once, uncorrected},
                                              {lost, loss_difference("warm_up", at_once.name, dgc.name), loss_difference("correction", uncorrected.name, dgc.name)}});

const bool at_own_rates = register_loss_claim({.claim = no_loss("d", ", at a learning rate of its own"),
                                               .comparison = two_replicas(", each at its own rate"),
                                               .arms = {dense, dgc},
                                               .differences = {lost},
                                               .tuning = {.option = "learning-rate", .values = {{dense.name, {"0.1", "0.2", "0.4"}}, {dgc.name, {"0.025", "0.05", "0.1", "0.2", "0.4"}}}}});

}  // namespace
}  // namespace thinwire::claims
