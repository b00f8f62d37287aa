// low_communication.C21: what Dion's rank costs. What ranks send does not matter to the loss (C20), so
// gradients may be reduced as they are where the rank is whole.
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

Trained of_rank(const std::string& name, const std::string& fraction) {
  return arm(name, "dion:rank_fraction=" + fraction);
}
const Trained all = of_rank("whole rank", "1"), quarter = of_rank("a quarter", "0.25"),
              sixteenth = of_rank("a sixteenth", "0.0625");

const bool fraction = registered({.id = "low_communication.C21",
                                  .statement = "A quarter of the rank is nearly as good for Dion.",
                                  .provenance = "read: Dion's code (for 3B); not expected at this scale",
                                  .from = Profile::full,
                                  .rule = as_good("lost"),
                                  .seeds = {5, 10}},
                                 small_model("Dion on 4 ranks", 4), {all, quarter, sixteenth},
                                 {loss_difference("lost", quarter.arm.name, all.arm.name),
                                  loss_difference("sixteenth", sixteenth.arm.name, all.arm.name)});

}  // namespace
}  // namespace thinwire::claims
