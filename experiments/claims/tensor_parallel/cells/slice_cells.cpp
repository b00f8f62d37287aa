#include "experiments/claims/tensor_parallel/cells/slice_cells.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "collectives/link/emulated_network.h"
#include "core/error.h"
#include "core/statistics.h"
#include "models/cost_model/link_model.h"

namespace thinwire::claims::tensor_parallel {
namespace {

int last_number(const std::string& operation) {
  const std::size_t at = operation.rfind(' ') + 1;
  int value = -1;
  std::from_chars(operation.data() + at, operation.data() + operation.size(), value);
  return value;
}

LinkModel link_of(const std::string& link) {
  if (!EmulatedLink::is_emulated(link)) return {0, std::numeric_limits<double>::infinity()};
  const EmulatedLink emulated = EmulatedLink::parse(link);
  return {emulated.latency_us, emulated.gbps};
}

}  // namespace

MeasuredStage measured_stage(JudgeContext& context, const StageSizes& s, int rounds, int largest_batch) {
  CellRequest r;
  r.program = "bench_token_slices";
  r.ranks = 1;
  for (const auto& [name, value] : {std::pair{"layers", s.layers}, {"hidden", s.hidden}, {"heads", s.heads}, {"seq", s.seq}, {"granularity", s.granularity},
                                    {"rounds", rounds}, {"batch", largest_batch}})
    r.parameters.set(name, value);
  r.tags = {"tensor_parallel", "slice times"};
  const results::CellRecord record = run_measured(context, {&r, 1}).front();
  std::vector<SliceSample> samples;
  double optimizer_us = 0;
  for (const results::CellRow& row : record.rows) {
    if (row.operation == "optimizer") {
      optimizer_us = row.total_us;
    } else if (row.operation.starts_with("forward")) {
      samples.push_back({static_cast<int>(row.batch), static_cast<int>(row.seq), last_number(row.operation), row.total_us, 0});
    } else if (row.operation.starts_with("backward")) {
      if (samples.empty()) throw CorruptData("the record of bench_token_slices has a backward pass without a forward pass");
      samples.back().backward_us = row.total_us;
    }
  }
  return {SliceTimes(std::move(samples)), optimizer_us};
}

Table table_of(const MeasuredStage& stage) {
  Table t{"slice times", {"sequences", "tokens", "context (tokens)", "forward (ms)", "backward (ms)"}, {}};
  for (const SliceSample& s : stage.times.samples())
    t.rows.push_back({std::to_string(s.tokens) + " after " + std::to_string(s.context),
                      {static_cast<double>(s.batch), static_cast<double>(s.tokens), static_cast<double>(s.context), s.forward_us * 1e-3, s.backward_us * 1e-3}});
  return t;
}

CellRequest sliced_request(const StageSizes& s, const SlicedArm& arm, const std::string& link, int repetition) {
  CellRequest r;
  r.program = "train_gpt";
  r.ranks = arm.stages;
  r.link = link;
  results::Parameters& p = r.parameters;
  for (const auto& [name, value] : {std::pair{"pp", arm.stages}, {"layers", s.layers * arm.stages}, {"hidden", s.hidden}, {"heads", s.heads},
                                    {"global-batch", arm.sequences}, {"micro-batch", arm.micro_batch}, {"eval-sequences", 1}, {"seed", repetition + 1}})
    p.set(name, value);
  int seq = 0;
  for (const int tokens : arm.slices) seq += tokens;
  p.set("seq", seq);
  p.set("max-seq", seq);
  p.set("comm-dtype", "f32");
  p.set("schedule", "terapipe");
  p.set("token-slices", arm.slices.size() == 1 ? "1" : format_slices(arm.slices));
  p.set("plan", arm.name);
  if (link == "shm") {
    p.set("steps", 12);
  } else {
    p.set("compute", "timed");
    p.set("serial-steps", 3);
    p.set("steps", 6);
  }
  r.tags = {"tensor_parallel", "token slices", arm.name};
  return r;
}

std::vector<SlicedStep> sliced_steps(JudgeContext& context, const StageSizes& s, const std::vector<SlicedArm>& arms, const std::string& link, int repetitions) {
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < repetitions; ++repetition)  // in turn: what disturbs the machine for a while meets all arms
    for (const SlicedArm& arm : arms) requests.push_back(sliced_request(s, arm, link, repetition));
  const std::vector<results::CellRecord> records = run_measured(context, requests);
  std::vector<SlicedStep> steps(arms.size());
  for (std::size_t a = 0; a < arms.size(); ++a) {
    std::vector<double> ms;
    double spread = 0;
    for (std::size_t i = a; i < records.size(); i += arms.size()) {
      if (!measured_well(records[i]) && steps[a].untrusted.empty()) steps[a].untrusted = reason_of(records[i]);
      for (const results::TrainingTimeRow& row : records[i].training.time) {
        ms.push_back(row.step_ms);
        spread = std::max(spread, row.step_iqr_ms);
      }
    }
    if (ms.empty()) throw RuntimeFailure("arm " + arms[a].name + " of train_gpt has no step time");
    steps[a].ms = median(ms);
    steps[a].spread_ms = spread;
  }
  return steps;
}

BatchSliceTime time_with_messages(const MeasuredStage& stage, const StageSizes& sizes, const std::string& link) {
  const LinkModel model = link_of(link);
  return [&stage, hidden = sizes.hidden, model](int batch, int tokens, int context) {
    return stage.times.pass_us(batch, tokens, context) + 2 * model.message_us(4.0 * batch * tokens * hidden);
  };
}

double predicted_ms(const MeasuredStage& stage, const StageSizes& sizes, const SlicedArm& arm, const std::string& link) {
  const std::vector<SlicedBatch> batches(static_cast<std::size_t>(arm.sequences / arm.micro_batch), SlicedBatch{arm.micro_batch, arm.slices});
  return (sliced_step(time_with_messages(stage, sizes, link), batches, arm.stages) + stage.optimizer_us) * 1e-3;
}

}  // namespace thinwire::claims::tensor_parallel
