// low_communication.C8: what 16, 8 and 4 bits of outer gradients cost DiLoCo, without error feedback. The verdict is that
// of e3m0, Streaming DiLoCo's type.
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

Trained coded(const std::string& name, const std::string& codec, const std::string& protocol = "gather") {
  return arm(name, diloco(), 4,
             {{"compress.outer_gradient", codec}, {"compress.outer_gradient.protocol", protocol}});
}
const Trained dense = arm("dense", "adamw"), whole = arm("DiLoCo", diloco(), 4),
              sixteen = coded("16 bits", "cast:to=f16"),
              eight = coded("8 bits in two shots", "group:bits=8", "two_shot"),
              four = coded("4 bits, e3m0", "e3m0:block=256");

const bool registered_ = registered({.id = "low_communication.C8",
                                     .statement = "4-bit pseudo-gradients cost nothing.",
                                     .provenance = "second-hand; read: MuLoCo's code",
                                     .from = Profile::full,
                                     .rule = as_good("lost", 0.01),
                                     .seeds = {5, 10}},
                                    small_model("4 replicas, 30 steps apart, few bits", 4),
                                    {dense, whole, sixteen, eight, four},
                                    {loss_difference("lost", four.arm.name, whole.arm.name),
                                     loss_difference("sixteen", sixteen.arm.name, whole.arm.name),
                                     loss_difference("eight", eight.arm.name, whole.arm.name)});

}  // namespace
}  // namespace thinwire::claims
