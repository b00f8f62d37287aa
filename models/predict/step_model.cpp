#include "models/predict/step_model.h"

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
      std::fill(costs.gradient_us.begin(), costs.gradient_us.end(), without);
      break;
    case StepPart::embedding:
      costs.embedding_us = without;
      break;
  }
  return costs;
}

StepPrediction walk_step(const Schedule& schedule, const StepCosts& costs) {
  StepPrediction p;
  p.pipeline = walk(
      schedule,
      [&](int stage, const Instruction& i) {
        const StageWork& work = costs.stage[static_cast<std::size_t>(stage)];
        switch (i.kind) {
          case InstructionKind::forward:
            return work.forward_us + work.forward_sums_us;
          case InstructionKind::backward:
            return work.backward_us + work.backward_sums_us;
          case InstructionKind::send_forward:
            return costs.forward_message_us ? costs.forward_message_us(stage, i.micro) : without;
          case InstructionKind::send_backward:
            return costs.backward_message_us ? costs.backward_message_us(stage, i.micro) : without;
          default:
            return without;
        }
      },
      costs.sends);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    double computed = 0;
    const auto& list = schedule.stage[static_cast<std::size_t>(stage)];
    for (std::size_t k = 0; k < list.size(); ++k)
      if (list[k].kind == InstructionKind::backward) computed = p.pipeline.stage[static_cast<std::size_t>(stage)][k].end;
    p.stage_end_us.push_back(computed + costs.gradient_us[static_cast<std::size_t>(stage)]);
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
  if (costs.stage.size() != stages || costs.gradient_us.size() != stages)
    throw UsageError("the schedule has " + std::to_string(stages) + " stages; costs are given for " + std::to_string(costs.stage.size()) +
                     " and gradient sums for " + std::to_string(costs.gradient_us.size()));
  StepPrediction p = walk_step(schedule, costs);
  for (const StepPart part : all_step_parts)
    p.exposed_us[static_cast<std::size_t>(part)] = p.step_us - walk_step(schedule, less(costs, part)).step_us;
  return p;
}

int stages_worth_compressing(double dense_us, double compressed_us, double step_us, int stages) {
  if (dense_us <= compressed_us) return 0;
  if (step_us <= 0) return stages;
  return std::min(stages, static_cast<int>(std::ceil((dense_us - compressed_us) / step_us - 1e-12)));
}

}  // namespace thinwire
