// Time of one training step from the very schedule that the executor runs (lowered or not), the compute time of each stage, and the cost of each message.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/parallel/schedule/walk.h"
#include "results/row.h"

namespace thinwire {

/// One micro-batch through one chunk of a stage, microseconds: computing, and the tensor-parallel sums inside, which block.
struct StageWork {
  double forward_us = 0, backward_us = 0;
  double forward_sums_us = 0, backward_sums_us = 0;
  /// Computing by slice where micro-batches are cut into slices, which differ in tokens and context; empty: as above. The sums above are
  /// then those of a slice.
  std::vector<double> slice_forward_us = {}, slice_backward_us = {};
};

/// Microseconds of a boundary message by sending stage, micro-batch and slice of it; from a function of the first two, or of all three.
class MessageCost {
 public:
  MessageCost() = default;
  template <typename Function>
    requires(!std::is_same_v<std::remove_cvref_t<Function>, MessageCost>)
  MessageCost(Function f) {
    if constexpr (std::is_invocable_v<Function, int, int, int>)
      cost_ = std::move(f);
    else
      cost_ = [f = std::move(f)](int sender, int micro, int) { return f(sender, micro); };
  }
  double operator()(int sender, int micro, int slice = 0) const { return cost_ ? cost_(sender, micro, slice) : 0.0; }

 private:
  std::function<double(int sender, int micro, int slice)> cost_;
};

/// Microseconds that the gather or the reduction of a unit takes, on the link that both share and besides; null: nothing.
using UnitCost = std::function<TransferTime(int stage, int chunk, int unit)>;

struct StepCosts {
  std::vector<StageWork> stage;  ///< [P]
  /// A boundary message of the sending stage (codec work included).
  MessageCost forward_message_us, backward_message_us;
  std::vector<double> gradient_us;  ///< [P] sum over replicas after the stage's last backward pass, as far as nothing hides it
  std::vector<double> table_us;     ///< [P] or empty: sum of a stage's copy of the tied table over replicas, after its gradient sum
  double embedding_us = 0;          ///< sum of the tied table's gradient, after first and last stage have their gradients
  double optimizer_us = 0;
  bool sums_after_sends = false;    ///< gradient sums leave through the card that a stage's last boundary message still uses
  SendMode sends = SendMode::eager;
  // Of lowered schedules with such instructions: what runs beside the passes. `gradient_us` is then what is left behind them.
  UnitCost unshard_us = {}, reduce_us = {};
  PassShare unit_share = {};  ///< how a pass spreads over its units; without it evenly
};

/// What can be taken out of a step, to see what it costs.
enum class StepPart { tensor_sums, forward_messages, backward_messages, gradients, embedding };
inline constexpr std::array all_step_parts = {StepPart::tensor_sums, StepPart::forward_messages, StepPart::backward_messages, StepPart::gradients,
                                              StepPart::embedding};
std::string name_of(StepPart part);

struct StepPrediction {
  Walk pipeline;
  std::vector<double> stage_end_us;  ///< [P] last backward pass and its sum over replicas
  double step_us = 0;
  /// By StepPart: how much shorter the step would be if the part cost nothing. Parts hide each other, so these need not add up.
  std::array<double, all_step_parts.size()> exposed_us{};
};

/// UsageError when the numbers of stages differ.
StepPrediction predict_step(const Schedule& schedule, const StepCosts& costs);

/// The predicted step as rows of a timeline, one rank per stage (`ranks`[s] stands for stage s): work, waiting and messages, then sums
/// and optimizer. plan and link stay empty.
std::vector<results::TimelineRow> timeline_of(const Schedule& schedule, const StepCosts& costs, const StepPrediction& prediction, const std::vector<int>& ranks);

/// The fewest first stages to compress so that gradient sums no longer prolong the step: K with a dense sum taking `dense_us`, a
/// compressed one `compressed_us`, and stage s + 1 ending its backward `step_us` before stage s (docs/papers/optimus_cc.md, "Step time of
/// strict 1F1B"): ceil((dense - compressed) / step), at most `stages`, 0 where compressing saves nothing.
int stages_worth_compressing(double dense_us, double compressed_us, double step_us, int stages);

}  // namespace thinwire
