#include "experiments/claims/optimus_cc/cells/timed.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/statistics.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "kernels/codec/registry.h"

namespace thinwire::claims::optimus_cc {
namespace {

void add(TimedStep& step, std::vector<double>& predictions, const results::CellRecord& record) {
  for (const results::SampleRow& sample : record.samples)
    if (sample.traffic == "step") step.step_ms.push_back(sample.total_us * 1e-3);
  for (const results::TrainingPredictionRow& row : record.training.prediction)
    if (row.part == "step") predictions.push_back(row.predicted_ms);
  if (!step.bytes.empty()) return;
  for (const results::CellRow& row : record.rows) {
    step.bytes[row.traffic] += static_cast<double>(row.link_bytes_max);
    if (compresses(row.codec)) step.codec_ms[row.traffic] += (row.encode_us + row.decode_us) * 1e-3;
  }
  for (const results::TrainingTrafficRow& row : record.training.traffic)
    if (row.traffic == "pp_backward" && compresses(row.codec) && row.operations > 0) {
      // Both ends of a message are an operation each; times are means over ranks.
      step.messages = static_cast<double>(row.operations) / 2;
      step.codec_us = (row.encode_us + row.decode_us) * record.ranks / step.messages;
    }
}

}  // namespace

CellRequest timed_request(const TimedArm& arm, int repetition) {
  CellRequest r;
  r.program = "train_gpt";
  r.ranks = 4 * arm.replicas;
  r.link = arm.link;
  results::Parameters& p = r.parameters;
  p.set("pp", 4);
  p.set("dp", arm.replicas);
  p.set("comm-dtype", "f32");
  p.set("overlap", false);
  p.set("compute", "timed");
  p.set("serial-steps", 3);
  p.set("steps", 10);
  p.set("seed", repetition + 1);
  p.set("plan", arm.name);
  for (const auto& [name, value] : arm.settings) p.set(name, value);
  r.tags = {"optimus_cc", "timed", arm.name};
  return r;
}

void state_passes(TimedArm& arm, double forward_us, double backward_us) {
  arm.settings["stage-forward-us"] = digits(forward_us);
  arm.settings["stage-backward-us"] = digits(backward_us);
}

void compress_backward(TimedArm& arm, const std::string& codec, bool epilogue_only) {
  arm.settings["compress.pp_backward"] = codec;
  if (epilogue_only) arm.settings["compress.pp_backward.epilogue_only"] = "true";
}

void compress_gradients(TimedArm& arm, int count, int rank) {
  if (count < 1) return;
  arm.settings["compress.dp_gradient"] = "powersgd:rank=" + std::to_string(rank) + "+ef";
  arm.settings["compress.dp_gradient.stages"] = count == 1 ? "0" : "0-" + std::to_string(count - 1);
}

std::vector<TimedStep> timed_steps(JudgeContext& context, const std::vector<TimedArm>& arms, int repetitions) {
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < repetitions; ++repetition)  // in turn: what disturbs the machine for a while meets all arms
    for (const TimedArm& arm : arms) requests.push_back(timed_request(arm, repetition));
  const std::vector<results::CellRecord> records = run_measured(context, requests);
  std::vector<TimedStep> steps(arms.size());
  std::vector<std::vector<double>> predictions(arms.size());
  for (std::size_t i = 0; i < records.size(); ++i) add(steps[i % arms.size()], predictions[i % arms.size()], records[i]);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (steps[i].step_ms.empty()) throw RuntimeFailure("arm " + arms[i].name + " on " + arms[i].link + " has no step times");
    steps[i].predicted_ms = median(predictions[i]);
  }
  return steps;
}

}  // namespace thinwire::claims::optimus_cc
