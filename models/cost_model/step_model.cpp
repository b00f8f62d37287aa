#include "models/cost_model/step_model.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace thinwire {
namespace {

constexpr double without = 0.0;

/// The costs with one part taken out.
StepCosts less(StepCosts costs, StepPart part) {
  const auto nothing = [](int, int) { return without; };
  switch (part) {
    case StepPart::tensor_sums:
      for (StageWork& work : costs.stage) work.forward_sums_us = work.backward_sums_us = without;
      break;
    case StepPart::forward_messages:
      costs.forward_message_us = nothing;
      break;
    case StepPart::backward_messages:
      costs.backward_message_us = nothing;
      break;
    case StepPart::gradients:
      costs.reduce_us = {};
      std::fill(costs.gradient_us.begin(), costs.gradient_us.end(), without);
      break;
    case StepPart::embedding:
      costs.embedding_us = without;
      std::fill(costs.table_us.begin(), costs.table_us.end(), without);
      break;
  }
  return costs;
}

double of_slice(const std::vector<double>& by_slice, const Instruction& i, double otherwise) {
  return by_slice.empty() ? otherwise : by_slice.at(static_cast<std::size_t>(i.slice));
}

StepPrediction walk_step(const Schedule& schedule, const StepCosts& costs) {
  StepPrediction p;
  p.pipeline = walk(
      schedule,
      [&](int stage, const Instruction& i) -> TransferTime {
        const StageWork& work = costs.stage[static_cast<std::size_t>(stage)];
        switch (i.kind) {
          case InstructionKind::forward:
            return of_slice(work.slice_forward_us, i, work.forward_us) + work.forward_sums_us;
          case InstructionKind::backward:
            return of_slice(work.slice_backward_us, i, work.backward_us) + work.backward_sums_us;
          case InstructionKind::send_forward:
            return costs.forward_message_us(stage, i.micro, i.slice);
          case InstructionKind::send_backward:
            return costs.backward_message_us(stage, i.micro, i.slice);
          case InstructionKind::unshard:
            return costs.unshard_us ? costs.unshard_us(stage, i.chunk, i.unit) : TransferTime();
          case InstructionKind::reduce:
            return costs.reduce_us ? costs.reduce_us(stage, i.chunk, i.unit) : TransferTime();
          default:
            return without;
        }
      },
      costs.sends, costs.unit_share);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    double computed = 0;
    const auto& list = schedule.stage[static_cast<std::size_t>(stage)];
    for (std::size_t k = 0; k < list.size(); ++k)
      if (list[k].kind == InstructionKind::backward) computed = p.pipeline.stage[static_cast<std::size_t>(stage)][k].end;
    const auto at = static_cast<std::size_t>(stage);
    const double table = costs.table_us.empty() ? without : costs.table_us[at];
    // A stage with nothing to sum is done when it has computed; who receives its last message ends later anyway.
    if (costs.sums_after_sends && costs.gradient_us[at] + table > 0) computed = std::max(computed, p.pipeline.sends_done[at]);
    computed = std::max(computed, p.pipeline.reduced[at]);
    p.stage_end_us.push_back(computed + costs.gradient_us[at] + table);
  }
  const double table = std::max(p.stage_end_us.front(), p.stage_end_us.back()) + costs.embedding_us;
  const double last = *std::max_element(p.stage_end_us.begin(), p.stage_end_us.end());
  // A sender may leave before its message arrives; the step still waits for who receives it.
  p.step_us = std::max({p.pipeline.makespan, last, table}) + costs.optimizer_us;
  return p;
}

}  // namespace

std::string name_of(StepPart part) {
  constexpr std::array names = {"tensor sums", "forward messages", "backward messages", "gradient sums", "embedding"};
  return names[static_cast<std::size_t>(part)];
}

StepPrediction predict_step(const Schedule& schedule, const StepCosts& costs) {
  const auto stages = static_cast<std::size_t>(schedule.stages);
  if (costs.stage.size() != stages || costs.gradient_us.size() != stages || (!costs.table_us.empty() && costs.table_us.size() != stages))
    throw UsageError("the schedule has " + std::to_string(stages) + " stages; costs are given for " + std::to_string(costs.stage.size()) +
                     " and gradient sums for " + std::to_string(costs.gradient_us.size()));
  StepPrediction p = walk_step(schedule, costs);
  for (const StepPart part : all_step_parts)
    p.exposed_us[static_cast<std::size_t>(part)] = p.step_us - walk_step(schedule, less(costs, part)).step_us;
  return p;
}

std::vector<results::TimelineRow> timeline_of(const Schedule& schedule, const StepCosts& costs, const StepPrediction& prediction,
                                              const std::vector<int>& ranks) {
  std::vector<results::TimelineRow> rows;
  double table_ready = 0;
  for (const double end : {prediction.stage_end_us.front(), prediction.stage_end_us.back()}) table_ready = std::max(table_ready, end);
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    const auto add = [&](const char* category, const std::string& name, int micro, double start, double end) {
      if (end <= start) return;
      results::TimelineRow row;
      row.rank = ranks[stage];
      row.category = category;
      row.name = name;
      row.micro = micro;
      row.start_us = start;
      row.end_us = end;
      rows.push_back(std::move(row));
    };
    double open = 0;  // where the pass that runs began; what holds it up lies inside
    for (std::size_t k = 0; k < schedule.stage[stage].size(); ++k) {
      const Instruction& i = schedule.stage[stage][k];
      const WalkedInstruction& at = prediction.pipeline.stage[stage][k];
      const StageWork& work = costs.stage[stage];
      const int last_unit = i.unit < 0 ? -1 : schedule.units[stage][static_cast<std::size_t>(i.chunk)] - 1;
      switch (i.kind) {
        case InstructionKind::forward:
          if (i.at_first_unit()) open = at.start;
          if (i.unit < last_unit) break;
          add("compute", "forward", i.micro, open, at.end - work.forward_sums_us);
          add("transfer", "tp_forward", i.micro, at.end - work.forward_sums_us, at.end);
          break;
        case InstructionKind::backward:
          if (i.unit == last_unit) open = at.start;
          if (!i.at_first_unit()) break;
          add("compute", "backward", i.micro, open, at.end - work.backward_sums_us);
          add("transfer", "tp_backward", i.micro, at.end - work.backward_sums_us, at.end);
          break;
        case InstructionKind::send_forward:
          add("transfer", "pp_forward", i.micro, at.start, at.arrival);
          break;
        case InstructionKind::send_backward:
          add("transfer", "pp_backward", i.micro, at.start, at.arrival);
          break;
        case InstructionKind::unshard:
          add("transfer", "param_all_gather", i.micro, at.departure, at.arrival);
          break;
        case InstructionKind::reduce:
          add("transfer", "dp_gradient", i.micro, at.departure, at.arrival);
          break;
        case InstructionKind::wait_unshard:
          if (at.end <= at.start) break;
          add("wait", "parameters", i.micro, at.start, at.end);
          break;
        case InstructionKind::reshard:
          break;
        default:
          add("wait", "pipeline", i.micro, at.start, at.end);
      }
    }
    const double end = prediction.stage_end_us[stage], table = costs.table_us.empty() ? without : costs.table_us[stage];
    add("transfer", "dp_gradient", -1, end - table - costs.gradient_us[stage], end - table);
    add("transfer", "embedding", -1, end - table, end);
    if (stage == 0 || stage + 1 == ranks.size()) add("transfer", "embedding", -1, table_ready, table_ready + costs.embedding_us);
    add("compute", "optimizer", -1, prediction.step_us - costs.optimizer_us, prediction.step_us);
  }
  return rows;
}

int stages_worth_compressing(double dense_us, double compressed_us, double step_us, int stages) {
  if (dense_us <= compressed_us) return 0;
  if (step_us <= 0) return stages;
  return std::min(stages, static_cast<int>(std::ceil((dense_us - compressed_us) / step_us - 1e-12)));
}

}  // namespace thinwire
