// low_communication.C19: DeMo, whose step is the sign of the mean of the largest coefficients of what each replica
// remembers (docs/papers/low_communication.md, "DeMo"), against AdamW; rate and decay chosen for all. Means are over all
// replicas, vectors travel whole.
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

Trained demo(const std::string& name, const std::string& codec) {
  return arm(name, "sgd:momentum=0,sign=true", 1,
             {{"min-lr", "0.0001"}, {"compress.dp_gradient", codec + ",values=f32+ef:beta=0.999"}});
}
const Trained adamw = arm("AdamW", "adamw"), of_32 = demo("DeMo, 32 of a chunk", "chunk_topk:k=32,transform=dct"),
              of_8 = demo("DeMo, 8 of a chunk", "chunk_topk:k=8,transform=dct"),
              plain_8 = demo("8 of a chunk, no transform", "chunk_topk:k=8"),
              sign = arm("sign of momentum", "sgd:momentum=0.95,sign=true", 1, {{"min-lr", "0.0001"}});

/// Three rates and two decays each.
bool tuned(const std::string& part, const std::string& statement, Rule rule, const std::vector<Trained>& arms,
           std::vector<LossDifference> differences) {
  LossClaim of;
  of.claim = {.id = "low_communication.C19" + part,
              .statement = statement,
              .provenance = "read: abstract of 2411.19870, authors' code",
              .from = Profile::full,
              .rule = std::move(rule),
              .seeds = {5, 10},
              .figure = "replica_losses"};
  of.comparison = small_model("DeMo on 4 ranks", 4);
  of.differences = std::move(differences);
  of.unit = LossUnit::nats;
  of.tuning.option = "learning-rate, weight-decay";
  for (const Trained& trained : arms) {
    of.arms.push_back(trained.arm);
    const bool signs = trained.arm.name != adamw.arm.name;
    for (const char* rate : {signs ? "0.0005" : "0.003", signs ? "0.001" : "0.006", signs ? "0.002" : "0.012"})
      for (const char* decay : {"0", "0.1"})
        of.tuning.values[trained.arm.name].push_back(std::string(rate) + ", " + decay);
  }
  return register_loss_claim(std::move(of));
}

const bool matches = tuned("", "DeMo matches AdamW.", as_good("lost"), {adamw, of_32, of_8},
                           {loss_difference("lost", of_32.arm.name, adamw.arm.name),
                            loss_difference("of_8", of_8.arm.name, adamw.arm.name)});
const bool transform = tuned("b", "The cosine transform helps DeMo at 8 of 4096.", better("gain"), {adamw, of_8, plain_8},
                             {loss_difference("gain", of_8.arm.name, plain_8.arm.name)});
const bool signs_alone =
    tuned("c", "DeMo is as good as the sign of a momentum that nothing compresses.", as_good("lost"),
          {adamw, sign, of_32}, {loss_difference("lost", of_32.arm.name, sign.arm.name)});

}  // namespace
}  // namespace thinwire::claims
