// low_communication.C7: the model in three fragments that travel while steps go on, against DiLoCo, which
// sends all at once and waits; C7b: what mixing is for where a fragment travels for five steps.
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

Trained streaming(const std::string& name, int overlap, const std::string& mixing,
                  const std::string& layout = "blocks") {
  return arm(name,
             "adamw+streaming_diloco:inner_steps=30,rate=0.7,momentum=0.9,fragments=3,overlap=" +
                 std::to_string(overlap) + ",mixing=" + mixing + ",layout=" + layout,
             4);
}
const Trained dense = arm("dense", "adamw"), whole = arm("DiLoCo", diloco(), 4),
              blocks = streaming("Streaming DiLoCo", 1, "0.5"),
              strided = streaming("Streaming DiLoCo, strided", 1, "0.5", "strided"),
              mixes = streaming("Streaming DiLoCo, overlap 5", 5, "0.5"),
              discards = streaming("Streaming DiLoCo, overlap 5, no mixing", 5, "0");

const bool as_good_as_whole = registered({.id = "low_communication.C7",
                                          .statement = "Streaming DiLoCo is as good as DiLoCo.",
                                          .provenance = "read: abstract of 2501.18512",
                                          .from = Profile::standard,
                                          .rule = as_good("lost"),
                                          .seeds = {3, 5}},
                                         small_model("4 replicas, 30 steps apart", 4), {dense, whole, blocks},
                                         {loss_difference("lost", blocks.arm.name, whole.arm.name)});

const bool mixing = registered({.id = "low_communication.C7b",
                                .statement = "Where a fragment travels for five steps, mixing half of the "
                                             "local weights in beats giving up what was done meanwhile.",
                                .provenance = "recollected (the half); derived (margin)",
                                .from = Profile::full,
                                .rule = better("gain"),
                                .seeds = {5, 10}},
                               small_model("4 replicas, fragments on their way for 5 steps", 4),
                               {dense, mixes, discards, strided},
                               {loss_difference("gain", mixes.arm.name, discards.arm.name),
                                loss_difference("strided", strided.arm.name, dense.arm.name)});

}  // namespace
}  // namespace thinwire::claims
