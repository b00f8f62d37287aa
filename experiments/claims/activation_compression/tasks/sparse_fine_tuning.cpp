// activation_compression.C2: Top-K at one and at ten per cent of the activations while a BERT is fine-tuned (C2a, C2b), and the paper's other methods beside it (C2c). The arms have
// its settings (names of the page, "Sizes"), coded in the last half of the layers: sums of tensor-parallel ranks (forward alone, so that the gradient of a sum comes back whole: straight through) and the
// boundary between the two stages, where a sparse codec's gradient comes back at the kept positions; in training and in validation.
#include "experiments/claims/fine_tuning/fine_tuned.h"

namespace thinwire::claims {
namespace {

RuleArm arm(const std::string& name, const std::string& codec, const std::string& in_sums = "") {
  return {name, {{"compress.tp_forward", codec + in_sums}, {"compress.tp_forward.layers", "2-3"}, {"compress.pp_forward", codec}, {"compress.pp_forward.layers", "2-3"}}};
}
RuleArm sparse(const std::string& name, const std::string& codec) { return arm(name, codec, "+straight_through"); }

const RuleArm dense{"dense", {}};
const RuleArm one = sparse("T1: Top-K, 0.98 %", "topk:fraction=0.00977"), ten = sparse("T4: Top-K, 9.8 %", "topk:fraction=0.0977");
const RuleArm random_ten = sparse("R4: Random-K, 9.8 %", "randomk:fraction=0.0977"), encoder = arm("A2: auto-encoder, 9.8 %", "autoencoder:fraction=0.0977,init=xavier");
const RuleArm two_bits = arm("Q1: 2 bits", "quantize:bits=2"), four_bits = arm("Q2: 4 bits", "quantize:bits=4");

bool judged(const std::string& part, const std::string& statement, Rule rule, std::vector<RuleArm> arms, std::vector<Retention> retentions) {
  rule.smallest_effect = "smallest";
  return register_metric_claim({{.id = "activation_compression.C2" + part,
                                 .statement = statement,
                                 .provenance = "recollected (Bian)",
                                 .from = Profile::standard,
                                 .rule = std::move(rule),
                                 .seeds = {3, 5},
                                 .figure = "fine_tuning_drop"},
                                two_by_two("fine-tuning, tp 2 x pp 2", tasks_of_sentences()),
                                std::move(arms),
                                std::move(retentions)});
}
bool of_topk(const std::string& part, const std::string& statement, Rule rule) {
  return judged(part, statement, std::move(rule), {dense, one, ten}, {{"top_1", one.name}, {"top_10", ten.name}});
}

const Constant smallest{"smallest", 0.02, "of what the dense arm has above chance: the smallest difference worth naming"};

const bool destroys = of_topk("a", "Top-K at about 1 % destroys accuracy.",
                              {.constants = {{"most", 0.6, "of what the dense arm has above chance"}, {"nearly_all", 0.9, "of it"}, smallest},
                               .scatter = {{"top_1", "most", "smallest"}},
                               .clauses = {{Verdict::confirmed, "top_1.high <= most"}, {Verdict::not_reproduced, "top_1.low >= nearly_all"}, {Verdict::direction_only, "top_1.high < nearly_all"}}});
const bool recovers = of_topk("b", "Top-K at 5 to 10 % recovers most of the accuracy.",
                              {.constants = {{"nearly_all", 0.9, "of what the dense arm has above chance"}, {"little", 0.7, "of it"}, smallest},
                               .scatter = {{"top_10", "nearly_all", "smallest"}},
                               .clauses = {{Verdict::confirmed, "top_10.low >= nearly_all"}, {Verdict::not_reproduced, "top_10.high <= little"}, {Verdict::direction_only, "top_10.low > little"}}});
// Top-K's arms are C2a's and C2b's cells, so that one table has all methods.
const bool few_bits = judged("c", "4 bits keep nearly all of the accuracy, 2 bits most of it; Random-K and an auto-encoder beside them.",
                             {.constants = {{"nearly_all", 0.9, "of what the dense arm has above chance"}, {"little", 0.7, "of it"}, smallest},
                              .scatter = {{"bits_4", "nearly_all", "smallest"}, {"bits_2", "little", "smallest"}},
                              .clauses = {{Verdict::confirmed, "bits_4.low >= nearly_all && bits_2.low >= little"},
                                          {Verdict::not_reproduced, "bits_4.high < nearly_all || bits_2.high < little"}}},
                             {dense, encoder, one, ten, random_ten, two_bits, four_bits},
                             {{"top_1", one.name}, {"top_10", ten.name}, {"random_10", random_ten.name}, {"encoder", encoder.name}, {"bits_2", two_bits.name}, {"bits_4", four_bits.name}});

}  // namespace
}  // namespace thinwire::claims
