// low_communication.C13: a mean over the replicas that sent an element, as released, is larger than one over all
// replicas by as many times as few send the same: so it acts as a larger outer rate. Rates are tried with both.
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

constexpr int replicas = 8;

Trained sparse(const std::string& name, const std::string& mean) {
  return arm(name, "adamw+local_sgd:inner_steps=30,rate=1", replicas,
             {{"compress.outer_gradient",
               "chunk_topk:k=64,values=codebook2,mean=" + mean + "+ef:beta=0.95"}});
}
const Trained of_all = sparse("mean over all", "ranks"), of_senders = sparse("mean over senders", "senders");

LossClaim claim() {
  LossClaim of;
  of.claim = {
      .id = "low_communication.C13",
      .statement = "Averaging over the senders of an index acts as a learning rate.",
      .provenance = "derived",
      .from = Profile::full,
      .rule = {.constants = {{"delta", 0.02, "nats per token: as good as"},
                             {"twice", 2, "x: rates that differ; they were tried in steps of two"},
                             {"smallest", 0.005, "nats per token: the smallest difference worth naming"}},
               .scatter = {{"lost", "delta", "delta"}},
               .clauses = {{Verdict::confirmed, "max(all_rate / senders_rate, senders_rate / all_rate) >= twice && "
                                                "lost.high < delta && lost.low > -delta"},
                           {Verdict::not_reproduced, "all_rate == senders_rate"}},
               .smallest_effect = "smallest"},
      .seeds = {5, 10},
      .figure = "replica_losses"};
  of.comparison = small_model("8 replicas, outer rates", replicas);
  of.arms = {of_all.arm, of_senders.arm};
  of.differences = {loss_difference("lost", of_senders.arm.name, of_all.arm.name)};
  of.unit = LossUnit::nats;
  of.tuning.option = "optimizer";
  for (const RuleArm& arm : of.arms)
    for (const char* rate : {"0.25", "0.5", "1", "2", "4", "8"})
      of.tuning.values[arm.name].push_back(std::string("adamw+local_sgd:inner_steps=30,rate=") + rate);
  of.chosen = {{"all_rate", of_all.arm.name}, {"senders_rate", of_senders.arm.name}};
  return of;
}

const bool registered_ = register_loss_claim(claim());

}  // namespace
}  // namespace thinwire::claims
