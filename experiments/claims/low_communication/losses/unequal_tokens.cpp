// low_communication.C6: OpenDiLoCo's scripts of 150M weights give DiLoCo as many samples per replica as the run it is compared with has in all. Here four replicas of four sequences a step against one run
// of four (unequal tokens) and one of sixteen (equal ones), in as many steps. All validate on the windows of a global batch of 16.
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

const Trained dense = arm("dense", "adamw"), four = arm("DiLoCo", diloco(), 4),
              quarter = arm("dense, a quarter of the tokens", "adamw", 1,
                            {{"global-batch", "4"}, {"micro-batch", "1"}, {"data", "text:validation_batch=16"}});

const bool gain = registered(
    {.id = "low_communication.C6",
     .statement = "Unequal tokens explain a published gain.",
     .provenance = "derived from OpenDiLoCo's scripts",
     .from = Profile::standard,
     .rule = {.constants = {{"none", 0, "no difference"},
                            {"delta", 0.02, "nats per token: what differences may scatter"},
                            {"smallest", 0.005, "nats per token: the smallest difference worth naming"},
                            {"plain", 0.015, "nats per token: a gain that nobody would overlook"}},
              .scatter = {{"unequal", "none", "delta"}, {"equal", "none", "delta"}},
              .clauses = {{Verdict::not_reproduced, "equal.high < none && equal <= -smallest"},
                          {Verdict::confirmed, "unequal.high < none && unequal <= -plain && equal > -smallest"},
                          {Verdict::not_reproduced, "unequal.low > -smallest"}},
              .smallest_effect = "smallest"},
     .seeds = {3, 5}},
    small_model("4 replicas, 30 steps apart", 4), {dense, four, quarter},
    {loss_difference("unequal", four.arm.name, quarter.arm.name),
     loss_difference("equal", four.arm.name, dense.arm.name)});

}  // namespace
}  // namespace thinwire::claims
