// activation_compression.C2: Top-K at one and at ten per cent of the activations while a BERT is fine-tuned. The arms are the paper's methods at its settings (names of the page, "Sizes"), coded in the
// last half of the layers: sums of tensor-parallel ranks (forward alone) and the boundary between the two stages; in training and in validation.
#include "experiments/claims/fine_tuning/fine_tuned.h"

namespace thinwire::claims {
namespace {

constexpr int steps = 200;

RuleArm arm(const std::string& name, const std::string& codec) {
  return {name, {{"compress.tp_forward", codec}, {"compress.tp_forward.layers", "2-3"}, {"compress.pp_forward", codec}, {"compress.pp_forward.layers", "2-3"}}};
}

const RuleArm dense{"dense", {}};
const RuleArm one = arm("T1: Top-K, 0.98 %", "topk:fraction=0.00977"), ten = arm("T4: Top-K, 9.8 %", "topk:fraction=0.0977");
const RuleArm random_ten = arm("R4: Random-K, 9.8 %", "randomk:fraction=0.0977"), encoder = arm("A2: auto-encoder, 9.8 %", "autoencoder:fraction=0.0977,init=xavier");
const RuleArm two_bits = arm("Q1: 2 bits", "quantize:bits=2"), four_bits = arm("Q2: 4 bits", "quantize:bits=4");

bool judged(const std::string& part, const std::string& statement, Rule rule) {
  rule.smallest_effect = "smallest";
  return register_metric_claim({{.id = "activation_compression.C2" + part,
                                 .statement = statement,
                                 .provenance = "recollected (Bian)",
                                 .from = Profile::standard,
                                 .rule = std::move(rule),
                                 .seeds = {3, 5, 10},
                                 .figure = "fine_tuning_drop"},
                                two_by_two("fine-tuning, tp 2 x pp 2", steps, first_tasks()),
                                {dense, encoder, one, ten, random_ten, two_bits, four_bits},
                                {{"top_1", one.name}, {"top_10", ten.name}, {"random_10", random_ten.name}, {"encoder", encoder.name}, {"bits_2", two_bits.name}, {"bits_4", four_bits.name}}});
}

const Constant smallest{"smallest", 0.02, "of what the dense arm has above chance: the smallest difference worth naming"};

const bool destroys = judged("a", "Top-K at about 1 % destroys accuracy.",
                             {.constants = {{"most", 0.6, "of what the dense arm has above chance"}, {"nearly_all", 0.9, "of it"}, smallest},
                              .scatter = {{"top_1", "most", "smallest"}},
                              .clauses = {{Verdict::confirmed, "top_1.high <= most"}, {Verdict::not_reproduced, "top_1.low >= nearly_all"}, {Verdict::direction_only, "top_1.high < nearly_all"}}});
const bool recovers = judged("b", "Top-K at 5 to 10 % recovers most of the accuracy.",
                             {.constants = {{"nearly_all", 0.9, "of what the dense arm has above chance"}, {"little", 0.7, "of it"}, smallest},
                              .scatter = {{"top_10", "nearly_all", "smallest"}},
                              .clauses = {{Verdict::confirmed, "top_10.low >= nearly_all"}, {Verdict::not_reproduced, "top_10.high <= little"}, {Verdict::direction_only, "top_10.low > little"}}});

}  // namespace
}  // namespace thinwire::claims
