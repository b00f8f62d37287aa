// activation_compression.C12: pre-training with coded activations, then fine-tuning without codecs. Each codec has a pre-training of its own (two hours and more), by pretrain.sh beside the study's
// model, one for an arm: what another order of its data would do is not seen. The dense arm has one, too, for pretrain.sh leaves layout and precision to its caller, and arms may differ by the codec alone. Layout,
// layers and ways back are those of C2's arms, what is not coded travels in f32 as there, and all fine-tuning is dense: what an arm loses, it brought along. Of acceptability alone, with seeds of its own: polarity
// missed the gain that a test needs (C2a).
#include "experiments/claims/fine_tuning/fine_tuned.h"
#include "experiments/claims/fine_tuning/study_folder.h"

namespace thinwire::claims {
namespace {

RuleArm brought(const std::string& name, const std::string& folder) { return {name, {{"from", study_folder + "/" + folder + "/bert"}}}; }
RuleArm brought(const std::string& name) { return brought("pre-trained with " + name, "with_" + name); }
const RuleArm dense = brought("dense", "with_none"), encoder = brought("A2"), ten = brought("T4"), eight = brought("Q3");

const std::string uncoded = "--ranks 4 --tp 2 --pp 2 --micro-batch 8 --comm-dtype f32";
std::string coded(const std::string& codec, const std::string& in_sums = "") {
  return uncoded + " --compress.tp_forward " + codec + in_sums + " --compress.tp_forward.layers 2-3 --compress.pp_forward " + codec +
         " --compress.pp_forward.layers 2-3";
}

FineTuning tuning() {
  FineTuning t = two_by_two("fine-tuning after coded pre-training", {tasks_of_sentences().front()});
  t.first_seed = 21;
  t.pretrained_by = {{dense.name, uncoded}, {encoder.name, coded("autoencoder:fraction=0.0977,init=xavier")}, {ten.name, coded("topk:fraction=0.0977", "+straight_through")}, {eight.name, coded("quantize:bits=8")}};
  return t;
}

const bool repaired = register_metric_claim({{.id = "activation_compression.C12",
                                              .statement = "Compressed pre-training is repaired by uncompressed fine-tuning.",
                                              .provenance = "recollected (Bian)",
                                              .from = Profile::full,
                                              .rule = {.settings = {{"pre-trainings", "one for each arm: intervals are of the seeds of fine-tuning alone"}},
                                                       .constants = {{"nearly_all", 0.95, "of what the dense arm has above chance"}, {"smallest", 0.02, "of it: the smallest difference worth naming"}},
                                                       .scatter = {{"encoder", "nearly_all", "smallest"}, {"ten", "nearly_all", "smallest"}, {"eight", "nearly_all", "smallest"}},
                                                       .clauses = {{Verdict::confirmed, "encoder.low >= nearly_all && ten.low >= nearly_all && eight.low >= nearly_all"},
                                                                   {Verdict::not_reproduced, "encoder.high < nearly_all || ten.high < nearly_all || eight.high < nearly_all"}},
                                                       .smallest_effect = "smallest"},
                                              .seeds = {3, 5, 10}},
                                             tuning(),
                                             {dense, encoder, ten, eight},
                                             {{"encoder", encoder.name}, {"ten", ten.name}, {"eight", eight.name}},
                                             /*least_tasks=*/1});

}  // namespace
}  // namespace thinwire::claims
