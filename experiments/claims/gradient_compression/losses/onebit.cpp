// gradient_compression.C21: Adam whose variance is frozen after a share of the steps, and whose momentum travels as signs with the errors of worker and server fed back, against Adam.
// C21b, registered after C21's arms had diverged: the same with the token table left dense. Rows of bytes that hardly occur have a tiny frozen variance, and a matrix has one scale for all
// of its signs: they get steps as large as the other rows' over that variance. DeepSpeed asks for a mask where gradients are constantly zero.
#include "experiments/claims/trained.h"

namespace thinwire::claims {
namespace {

constexpr int steps = 1000;

Comparison replicas(const std::string& name) {
  Comparison c = on_replicas(name, 4, steps);
  c.cell.tags = {"gradient_compression", "losses"};
  return c;
}

RuleArm frozen_after(int percent, const std::string& matrices, bool feedback = true) {
  RuleArm arm{"frozen after " + std::to_string(percent) + " %" + (feedback ? "" : ", no feedback"),
              {{"optimizer", "onebit_adam:freeze=" + std::to_string(steps * percent / 100)},
               {"compress.optimizer", feedback ? "sign:scale=l2+ef" : "sign:scale=l2"},
               {"compress.optimizer.protocol", "two_shot"}}};
  if (!matrices.empty()) arm.settings["compress.optimizer.layers"] = matrices;
  return arm;
}

/// `matrices`: the layers whose momentum travels as signs; empty: the token table, too.
bool judged(const std::string& id, const std::string& statement, const std::string& provenance, const std::string& matrices) {
  const RuleArm adam{"Adam", {}}, early = frozen_after(5, matrices), published = frozen_after(15, matrices), late = frozen_after(25, matrices), forgets = frozen_after(15, matrices, false);
  return register_loss_claim({{.id = id,
                               .statement = statement,
                               .provenance = provenance,
                               .from = Profile::standard,
                               .rule = {.constants = {{"within", 0.01, "of Adam's loss"}, {"none", 0, "feedback gains nothing"}, smallest_on_replicas},
                                        .scatter = {{"fifteen", "within", "smallest"}},
                                        .clauses = {{Verdict::confirmed, "fifteen.high <= within && feedback.low > none && feedback >= smallest"},
                                                    {Verdict::not_reproduced, "fifteen.low > within || feedback.high < smallest"},
                                                    {Verdict::direction_only, "fifteen <= within && feedback > none"}},
                                        .smallest_effect = "smallest"},
                               .seeds = {3, 5},
                               .figure = "replica_losses"},
                              replicas("4 replicas, 1-bit Adam" + std::string(matrices.empty() ? "" : ", table dense")),
                              {adam, early, published, late, forgets},
                              {loss_difference("fifteen", published.name, adam.name), loss_difference("feedback", forgets.name, published.name), loss_difference("five", early.name, adam.name),
                               loss_difference("twenty_five", late.name, adam.name)}});
}

const std::string read_at = "read: DeepSpeed's documents";
const bool whole = judged("gradient_compression.C21", "Adam with a frozen variance and error feedback tracks Adam.", read_at, "");
const bool layers = judged("gradient_compression.C21b", "Adam with a frozen variance and error feedback tracks Adam, the token table left dense.", read_at + "; derived (the table)", "0-3");

}  // namespace
}  // namespace thinwire::claims
