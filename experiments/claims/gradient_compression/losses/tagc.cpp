// gradient_compression.C9: what TAGC costs in loss at equal steps. Whether the published 3.6 % are of the loss or of the perplexity is unknown: the rule asks the loss, and both are shown.
#include "experiments/claims/gradient_compression/cells/tagc_trainings.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

bool judged(const std::string& part, std::int64_t width, const std::string& statement, Profile from) {
  const std::vector<RuleArm> arms = fsdp_arms(width);
  const std::string &fsdp = arms[0].name, &release = arms[1].name, &ladder = arms[2].name, &smallest = arms[3].name;
  return register_loss_claim({{.id = "gradient_compression.C9" + part,
                               .statement = statement,
                               .provenance = "read: abstract page (its machine-written part); metric unknown",
                               .from = from,
                               .rule = {.constants = {{"stated", 0.036, "of the loss of FSDP"}, smallest_on_replicas},
                                        .scatter = {{"release", "stated", "smallest"}},
                                        .clauses = {{Verdict::confirmed, "release <= stated"}},
                                        .otherwise = Verdict::not_reproduced,
                                        .smallest_effect = "smallest"},
                               .seeds = {3, 5},
                               .figure = "replica_losses"},
                              fsdp_training(width),
                              arms,
                              {loss_difference("release", release, fsdp), loss_difference("ladder", ladder, fsdp), loss_difference("fewest", smallest, fsdp)}});
}

const bool small = judged("a", trained_width, "TAGC's quality drops by at most 3.6 %.", Profile::standard);
const bool wide = judged("b", 256, "C9a at hidden 256.", Profile::full);

}  // namespace
}  // namespace thinwire::claims
