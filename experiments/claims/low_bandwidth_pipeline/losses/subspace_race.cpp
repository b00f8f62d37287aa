// low_bandwidth_pipeline.C7 to C10: does a subspace network win the race, how many more steps does it need, what does it lose in as many, and is plain quantisation sooner? The speedrun's k of 0.156 of the
// width is 10 of 64; the constrained form, whose head is free (docs/papers/low_bandwidth_pipeline.md, "Subspace networks").
#include "experiments/claims/low_bandwidth_pipeline/cells/raced.h"

namespace thinwire::claims {
namespace {

using namespace low_bandwidth_pipeline;

const RacedArm dense = dense_arm(), ssn = subspace_arm("ssn", "subspace, 10 of 64", 10), thin = subspace_arm("thin", "subspace, 3 of 64", 3), whole = subspace_arm("whole", "subspace, 64 of 64", 64),
               int8 = coded_arm("int8", "8 bits", "group:bits=8,group=64"), four = coded_arm("four", "4 bits", "group:bits=4,group=64");

const Constant scatter{"delta", 0.1, "x: what a ratio may scatter"}, worth{"worth", 0.05, "x: the smallest difference worth naming"};

bool wins(const std::string& part, const std::string& statement, RaceLink link) {
  return register_race({.id = "low_bandwidth_pipeline.C7" + part,
                        .statement = statement,
                        .provenance = "read: records of the speedrun",
                        .rule = {.constants = {scatter, worth},
                                 .scatter = {{"time", "one", "delta"}},
                                 .clauses = {{Verdict::confirmed, "time.high < one && time <= one - worth && ssn_missing == all"}, {Verdict::not_reproduced, "time.low > one"}},
                                 .smallest_effect = "worth"}},
                       {dense, ssn}, {{"time", "ssn", "dense", true, link}});
}
const bool on_contest = wins("", "The subspace network wins the race to the target loss.", RaceLink::meter),
           on_ordinary = wins("b", "The subspace network wins the race to the target loss on ordinary cards.", RaceLink::cards);

const bool more_steps = register_race({.id = "low_bandwidth_pipeline.C8",
                                       .statement = "The subspace network needs more steps than the dense one.",
                                       .provenance = "read: records of the speedrun (3.12x); second-hand (MAPL's +8 to 15 % loss)",
                                       .rule = {.constants = {scatter, {"more", 1.5, "x: more steps"}, {"alike", 1.2, "x: as many steps, about"}},
                                                .scatter = {{"steps", "more", "delta"}},
                                                .clauses = {{Verdict::confirmed, "steps.low > more"}, {Verdict::not_reproduced, "steps.high < alike && ssn_missing == all"}},
                                                .smallest_effect = "alike"}},
                                      {dense, ssn}, {{"steps", "ssn", "dense", false}});

const bool plain = register_race({.id = "low_bandwidth_pipeline.C10",
                                  .statement = "Plain quantisation beats the subspace network in time.",
                                  .provenance = "derived",
                                  .rule = {.constants = {scatter},
                                           .clauses = {{Verdict::confirmed, "(int8_time.high < one && int8_missing == all) || (four_time.high < one && four_missing == all)"},
                                                       {Verdict::not_reproduced, "int8_time.low > one && four_time.low > one && ssn_missing == all"}},
                                           .smallest_effect = "delta"}},
                                 {dense, ssn, int8, four},
                                 {{"int8_time", "int8", "ssn"}, {"four_time", "four", "ssn"}, {"int8_steps", "int8", "dense", false}, {"four_steps", "four", "dense", false}});

bool degrades(const std::string& part, const std::string& statement, const RacedArm& subspace) {
  LossClaim of;
  of.claim = {.id = "low_bandwidth_pipeline.C9" + part,
              .statement = statement,
              .provenance = "read: abstract of 2506.01260",
              .from = Profile::full,
              .rule = {.constants = {{"no_loss", 0.02, "nats per token: what counts as no loss"}, {"smallest", 0.005, "nats per token: the smallest difference worth naming"}},
                       .scatter = {{"lost", "no_loss", "no_loss"}},
                       .clauses = {{Verdict::confirmed, "lost.high < no_loss"}, {Verdict::not_reproduced, "lost.low > no_loss"}},
                       .smallest_effect = "smallest"},
              .seeds = {5, 10},
              .figure = "activation_losses"};
  of.comparison = race_s("race-s to the dense run's loss");
  of.arms = {dense.arm, subspace.arm, whole.arm};
  of.differences = {loss_difference("lost", subspace.arm.name, dense.arm.name), loss_difference("rounding", whole.arm.name, dense.arm.name)};
  of.unit = LossUnit::nats;
  of.tuning = race_rates({dense, subspace, whole});
  return register_loss_claim(std::move(of));
}
const bool at_ten = degrades("", "A subspace of the activations does not degrade convergence.", ssn), at_three = degrades("b", "A subspace of a twenty-fifth of the activations does not degrade convergence.", thin);

}  // namespace
}  // namespace thinwire::claims
