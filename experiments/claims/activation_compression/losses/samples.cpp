// activation_compression.C20 and C21: AQ-SGD, which codes the change of a sample's activation since its last epoch. A fixed set of windows, ten epochs; validated without codecs, as the authors do.
// The authors fine-tune; here the ten epochs are all of the training, and the first of them travels in full (the caches are empty).
#include "experiments/claims/activation_compression/cells/pipelines.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

constexpr int epochs = 10;

Comparison pipeline() {
  Comparison c = four_stages("ten epochs of a fixed set", training_steps);
  c.cell.parameters.set("data", "text:windows=" + std::to_string(16 * training_steps / epochs));
  return c;
}

std::string quantised(int bits) { return "quantize:packing=neighbour,bits=" + std::to_string(bits); }
RuleArm direct(int bits) { return {"direct, " + std::to_string(bits) + " and " + std::to_string(2 * bits) + " bits", validated_dense(forward(quantised(bits)) + backward(quantised(2 * bits)))}; }
RuleArm changes(int bits) { return {"AQ-SGD, " + std::to_string(bits) + " and " + std::to_string(2 * bits) + " bits", validated_dense(forward(quantised(bits) + "+delta") + backward(quantised(2 * bits)))}; }
RuleArm kept(int percent) { return {"AQ-SGD with Top-" + std::to_string(percent) + " %", validated_dense(forward("topk:fraction=0." + std::to_string(percent) + "+delta"))}; }

const RuleArm dense{"dense", {}};

const bool inside = register_in_nats({.id = "activation_compression.C20",
                                      .statement = "Inside AQ-SGD, Top-K below 30 % hurts markedly.",
                                      .provenance = "read: abstract of 2401.07788",
                                      .constants = {severe, no_loss, smallest},
                                      .scatter = {{"thirty", "severe", "no_loss"}, {"ten", "severe", "no_loss"}},
                                      .clauses = {{Verdict::confirmed, "thirty.high < severe && (twenty.low > severe || ten.low > severe)"}, {Verdict::not_reproduced, "ten.high < severe"}}},
                                     pipeline(), {dense, kept(30), kept(20), kept(10)},
                                     {loss_difference("thirty", kept(30).name, dense.name), loss_difference("twenty", kept(20).name, dense.name), loss_difference("ten", kept(10).name, dense.name)});

const bool at_few_bits = register_in_nats(
    {.id = "activation_compression.C21",
     .statement = "Coding the change of an activation at 2 to 4 bits converges where direct quantisation does not.",
     .provenance = "read: abstract of 2206.01299 (bits); second-hand (contrast)",
     .constants = {no_loss, smallest},
     .scatter = {},
     .clauses = {{Verdict::confirmed, "(two.high < no_loss && direct_two.low > no_loss) || (three.high < no_loss && direct_three.low > no_loss) || (four.high < no_loss && direct_four.low > no_loss)"},
                 {Verdict::not_reproduced, "(two.low > no_loss && three.low > no_loss && four.low > no_loss) || more_two.low > smallest || more_three.low > smallest || more_four.low > smallest"}},
     .may_fail = {direct(2).name, direct(3).name, direct(4).name}},
    pipeline(), {dense, direct(2), changes(2), direct(3), changes(3), direct(4), changes(4)},
    {loss_difference("two", changes(2).name, dense.name), loss_difference("direct_two", direct(2).name, dense.name), loss_difference("three", changes(3).name, dense.name),
     loss_difference("direct_three", direct(3).name, dense.name), loss_difference("four", changes(4).name, dense.name), loss_difference("direct_four", direct(4).name, dense.name),
     loss_difference("more_two", changes(2).name, direct(2).name), loss_difference("more_three", changes(3).name, direct(3).name), loss_difference("more_four", changes(4).name, direct(4).name)});

}  // namespace
}  // namespace thinwire::claims
