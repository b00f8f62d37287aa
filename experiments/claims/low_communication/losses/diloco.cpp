// low_communication.C3, C4 and C5: replicas that train apart for H steps against synchronous training of the
// same samples, and what the momentum of the outer step is for.
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

const char* const abstract = "read: abstract of 2311.08105";
const Trained dense = arm("dense", "adamw"), four = arm("DiLoCo", diloco(), 4),
              local = arm("local SGD", "adamw+local_sgd:inner_steps=30", 4),
              eight = arm("DiLoCo, 8 replicas", diloco(), 8);

const bool as_dense = registered({.id = "low_communication.C3",
                                  .statement = "DiLoCo is as good as synchronous training.",
                                  .provenance = abstract,
                                  .from = Profile::standard,
                                  .rule = as_good("lost"),
                                  .seeds = {3, 5}},
                                 small_model("4 replicas, 30 steps apart", 4), {dense, four},
                                 {loss_difference("lost", four.arm.name, dense.arm.name)});

const bool on_eight = registered({.id = "low_communication.C3b",
                                  .statement = "C3 with 8 replicas.",
                                  .provenance = abstract,
                                  .from = Profile::full,
                                  .rule = as_good("lost"),
                                  .seeds = {5, 10}},
                                 small_model("8 replicas, 30 steps apart", 8), {dense, eight},
                                 {loss_difference("lost", eight.arm.name, dense.arm.name)});

Trained apart(int steps) {
  return arm("DiLoCo, " + std::to_string(steps) + " steps apart", diloco(steps), 4);
}
const Trained ten = apart(10), hundred = apart(100), longest = apart(300);

const bool long_rounds = registered(
    {.id = "low_communication.C4",
     .statement = "DiLoCo's quality survives many inner steps per outer step (500x less communication).",
     .provenance = abstract,
     .from = Profile::full,
     .rule = as_good("hundred"),
     .seeds = {5, 10}},
    small_model("4 replicas, rounds of 10 to 300 steps", 4), {dense, ten, hundred, longest},
    {loss_difference("ten", ten.arm.name, dense.arm.name),
     loss_difference("hundred", hundred.arm.name, dense.arm.name),
     loss_difference("longest", longest.arm.name, dense.arm.name)});

const bool momentum = registered({.id = "low_communication.C5",
                                  .statement = "Outer Nesterov momentum matters.",
                                  .provenance = "recollected",
                                  .from = Profile::standard,
                                  .rule = better("gain"),
                                  .seeds = {3, 5}},
                                 small_model("4 replicas, 30 steps apart", 4), {dense, four, local},
                                 {loss_difference("gain", four.arm.name, local.arm.name),
                                  loss_difference("of_local", local.arm.name, dense.arm.name)});

}  // namespace
}  // namespace thinwire::claims
