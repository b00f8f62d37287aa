// gradient_compression.C21: Adam whose variance is frozen after a share of the steps, and whose momentum travels as signs with the errors of worker and server fed back, against Adam.
#include "experiments/claims/trained.h"

namespace thinwire::claims {
namespace {

constexpr int steps = 1000;

Comparison replicas() {
  Comparison c = on_replicas("4 replicas, 1-bit Adam", 4, steps);
  c.cell.tags = {"gradient_compression", "losses"};
  return c;
}

RuleArm frozen_after(int percent, bool feedback = true) {
  return {"frozen after " + std::to_string(percent) + " %" + (feedback ? "" : ", no feedback"),
          {{"optimizer", "onebit_adam:freeze=" + std::to_string(steps * percent / 100)},
           {"compress.optimizer", feedback ? "sign:scale=l2+ef" : "sign:scale=l2"},
           {"compress.optimizer.protocol", "two_shot"}}};
}

const RuleArm adam{"Adam", {}}, early = frozen_after(5), published = frozen_after(15), late = frozen_after(25), forgets = frozen_after(15, false);

const bool registered = register_loss_claim({{.id = "gradient_compression.C21",
                                              .statement = "Adam with a frozen variance and error feedback tracks Adam.",
                                              .provenance = "read: DeepSpeed's documents",
                                              .from = Profile::standard,
                                              .rule = {.constants = {{"within", 0.01, "of Adam's loss"}, {"none", 0, "feedback gains nothing"}, smallest_on_replicas},
                                                       .scatter = {{"fifteen", "within", "smallest"}},
                                                       .clauses = {{Verdict::confirmed, "fifteen.high <= within && feedback.low > none && feedback >= smallest"},
                                                                   {Verdict::not_reproduced, "fifteen.low > within || feedback.high < smallest"},
                                                                   {Verdict::direction_only, "fifteen <= within && feedback > none"}},
                                                       .smallest_effect = "smallest"},
                                              .seeds = {3, 5},
                                              .figure = "replica_losses"},
                                             replicas(),
                                             {adam, early, published, late, forgets},
                                             {loss_difference("fifteen", published.name, adam.name), loss_difference("feedback", forgets.name, published.name), loss_difference("five", early.name, adam.name),
                                              loss_difference("twenty_five", late.name, adam.name)}});

}  // namespace
}  // namespace thinwire::claims
