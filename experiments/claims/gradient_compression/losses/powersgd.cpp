// gradient_compression.C16b to C16d: what PowerSGD's sums of gradients cost a small GPT in loss: two replicas, AdamW, matrices by PowerSGD with error feedback, vectors dense; at the dense arm's learning rate,
// and at one of its own.
#include "experiments/claims/gradient_compression/losses/within_one_percent.h"

namespace thinwire::claims {
namespace {

Comparison two_replicas(const std::string& more = "") {
  Comparison c = on_replicas("2 replicas, PowerSGD" + more, 2, 1000);
  c.cell.tags = {"gradient_compression", "losses"};
  return c;
}

RuleArm arm(const std::string& name, const std::string& codec) { return {name, {{"compress.dp_gradient", codec}}}; }

const RuleArm dense{"dense", {}};
const RuleArm rank_1 = arm("rank 1", "powersgd:rank=1+ef"), rank_2 = arm("rank 2", "powersgd:rank=2+ef"), rank_4 = arm("rank 4", "powersgd:rank=4+ef");
const RuleArm forgets = arm("rank 4 without error feedback", "powersgd:rank=4"), cold = arm("rank 4, start anew", "powersgd:rank=4,warm_start=false+ef");

const Constant none{"none", 0, "no difference"};

const bool quality = register_loss_claim({{.id = "gradient_compression.C16b",
                                           .statement = "PowerSGD of rank 2 or 4 keeps the loss within 1 % of dense sums.",
                                           .provenance = "recollected (quality); derived (margin)",
                                           .from = Profile::standard,
                                           .rule = {.constants = {{"within", 0.01, "of the dense loss"}, smallest_on_replicas},
                                                    .scatter = {{"two", "within", "smallest"}, {"four", "within", "smallest"}},
                                                    .clauses = {{Verdict::confirmed, "two.high <= within || four.high <= within"}, {Verdict::not_reproduced, "two.low > within && four.low > within"}},
                                                    .smallest_effect = "smallest"},
                                           .seeds = {3, 5},
                                           .figure = "replica_losses"},
                                          two_replicas(),
                                          {dense, rank_1, rank_2, rank_4, cold},
                                          {loss_difference("two", rank_2.name, dense.name), loss_difference("four", rank_4.name, dense.name), loss_difference("one", rank_1.name, dense.name),
                                           loss_difference("anew", cold.name, rank_4.name)}});

const bool feedback = register_loss_claim({{.id = "gradient_compression.C16c",
                                            .statement = "PowerSGD without error feedback loses more than with it.",
                                            .provenance = "recollected",
                                            .from = Profile::standard,
                                            .rule = {.constants = {none, smallest_on_replicas},
                                                     .scatter = {{"more", "none", "smallest"}},
                                                     .clauses = {{Verdict::confirmed, "more.low > none && more >= smallest"}, {Verdict::not_reproduced, "more.high < none || (more.low > -smallest && more.high < smallest)"}},
                                                     .smallest_effect = "smallest"},
                                            .seeds = {3, 5},
                                            .figure = "replica_losses"},
                                           two_replicas(),
                                           {dense, rank_4, forgets},
                                           {loss_difference("more", forgets.name, rank_4.name)}});

const bool at_own_rates = register_loss_claim({.claim = {.id = "gradient_compression.C16d",
                                                         .statement = "PowerSGD of rank 4 keeps the loss within 1 % of dense sums, at a learning rate of its own.",
                                                         .provenance = "recollected (quality); derived (margin)",
                                                         .from = Profile::standard,
                                                         .rule = within_one_percent(),
                                                         .seeds = {3, 5},
                                                         .figure = "replica_losses"},
                                               .comparison = two_replicas(", each at its own rate"),
                                               .arms = {dense, rank_4},
                                               .differences = {loss_difference("lost", rank_4.name, dense.name)},
                                               .tuning = {.option = "learning-rate", .values = {{dense.name, {"0.003", "0.006", "0.01"}}, {rank_4.name, {"0.001", "0.002", "0.003", "0.006", "0.01", "0.02"}}}}});

}  // namespace
}  // namespace thinwire::claims
