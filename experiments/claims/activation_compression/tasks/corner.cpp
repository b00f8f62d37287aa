// activation_compression.M1: quick's corner of the question whether coded activations cost accuracy: one task, three codecs, one seed, a small BERT from scratch; minutes, no pre-trained model. The
// arms are three of C2's, so that its figure draws both. OUT/text_corner is what experiments/text_tasks/corner.sh makes; without it SKIPPED.
#include <cmath>
#include <filesystem>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/fine_tuning/task_result.h"

namespace thinwire::claims {
namespace {

const std::string folder = "text_corner", name = "a small BERT from scratch";
// Polarity of WordNet's glosses and examples: of the eight tasks the one of which words alone tell most (docs/papers/text_tasks.md, "How good they are").
const TuningTask task{"pol", "task=classification", "accuracy", 0.548, 32};

RuleArm coded(const std::string& arm, const std::string& codec, const std::string& in_sums = "") {
  return {arm, {{"compress.tp_forward", codec + in_sums}, {"compress.tp_forward.layers", "1"}, {"compress.pp_forward", codec}}};
}
const std::vector<RuleArm> arms = {
    {"dense", {}}, coded("A2: auto-encoder, 9.8 %", "autoencoder:fraction=0.0977,init=xavier"), coded("T1: Top-K, 0.98 %", "topk:fraction=0.00977", "+straight_through"), coded("Q2: 4 bits", "quantize:bits=4")};
enum Arm { dense, encoder, top_1, bits_4 };

CellRequest request(const RuleArm& arm) {
  CellRequest r{"train_gpt", 4, "shm", {}, 300, {"activation_compression", "corner", arm.name}, /*timed=*/false};
  for (const auto& [option, value] : std::map<std::string, std::int64_t>{{"tp", 2},
                                                                         {"pp", 2},
                                                                         {"layers", 2},
                                                                         {"hidden", 128},
                                                                         {"heads", 4},
                                                                         {"vocab", 4000},
                                                                         {"seq", task.seq},
                                                                         {"micro-batch", 16},
                                                                         {"global-batch", 32},
                                                                         {"steps", 250},
                                                                         {"warmup", 25},
                                                                         {"seed", 1}})
    r.parameters.set(option, value);
  r.parameters.set("model", "bert:" + task.head), r.parameters.set("data", "task:name=" + task.name), r.parameters.set("text", folder + "/tasks"),
      r.parameters.set("vocabulary", folder + "/vocab.txt");
  r.parameters.set("learning-rate", 1e-3), r.parameters.set("min-lr", 0.0), r.parameters.set("weight-decay", 0.01), r.parameters.set("beta2", 0.999), r.parameters.set("comm-dtype", "f32"), r.parameters.set("plan", arm.name);
  for (const auto& [option, value] : arm.settings) r.parameters.set(option, value);
  r.about_seconds = 20;
  return r;
}

Finding measure(JudgeContext& context) {
  Finding found;
  if (!context.cells.answers_from_file() && !context.cells.only_plans() && !std::filesystem::exists(context.out + "/" + folder + "/vocab.txt")) {
    found.note = "there is no task in " + context.out + "/" + folder + "; make it: scripts/setup.sh --study && experiments/text_tasks/corner.sh --out " + context.out + "/" + folder;
    found.instead = Verdict::skipped;
    return found;
  }
  std::vector<CellRequest> requests;
  for (const RuleArm& arm : arms) requests.push_back(request(arm));
  TaskResult result{.task = task};
  for (const results::CellRecord& record : context.cells.run(requests)) {
    result.metric.push_back({final_metric(record, task.metric)});
    result.link_bytes.push_back(activation_bytes(record));
  }
  const auto reached = [&](Arm arm) { return result.metric[arm].front(); };
  result.gain.mean = reached(dense) - task.chance;
  result.counts = result.gain.mean >= 0.05;
  const auto cost = [&](Arm arm, const char* symbol) { return Measure{"accuracy that " + arms[arm].name + " costs", reached(dense) - reached(arm), no_number, no_number, no_number, "", symbol}; };
  found.measures = {
      {"accuracy of dense less that of the commonest label", result.gain.mean, no_number, no_number, 0.05, "", "learned"}, cost(encoder, "encoder"), cost(top_1, "top_1"), cost(bits_4, "bits_4")};
  found.tables = task_tables(name, "gain over the commonest label", arms, {result});
  found.note = name + ", task " + task.name + ", one seed";
  return found;
}

Claim claim() {
  std::vector<NamedRequest> requests;
  for (const RuleArm& arm : arms) requests.push_back({arm.name, request(arm)});
  Rule rule = with_arms({}, requests);
  rule.quantities = {{"learned", "accuracy of the dense arm on dev less the share of dev's commonest label"},
                     {"encoder", "accuracy of the dense arm less that of A2"},
                     {"top_1", "accuracy of the dense arm less that of T1"},
                     {"bits_4", "accuracy of the dense arm less that of Q2"}};
  rule.constants = {{"enough", 0.05, "accuracy above the commonest label, or it learned too little to lose any"},
                    {"clear", 0.03, "accuracy: about three standard errors of a difference over 2000 rows; of seeds one says nothing"}};
  rule.clauses = {{Verdict::not_decidable, "learned < enough"}, {Verdict::direction_only, "top_1 - bits_4 >= clear"}, {Verdict::not_reproduced, "bits_4 - top_1 >= clear"}};
  rule.smallest_effect = "clear";
  return {.id = "activation_compression.M1",
          .statement = "On one task and one seed Top-K at 1 % costs a small BERT more accuracy than 4 bits do.",
          .provenance = "derived: a check of ours",
          .basis = Basis::training,
          .from = Profile::quick,
          .rule = rule,
          .measure = measure,
          .figure = "fine_tuning_drop"};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
