// Lowers a pipeline schedule to the units that its chunks are made of: every pass of a chunk becomes one instruction per unit, with the
// gathering of parameters and the reduction of gradients where they happen. Executor, step model, memory estimate and trace read that one list.
#pragma once

#include <functional>

#include "models/parallel/schedule/schedule.h"

namespace thinwire {

/// How long the gathered parameters of a unit stay where the store holds shards of them.
enum class KeepGathered {
  layer,        ///< for one pass of the unit: gathered again before its backward pass
  micro_batch,  ///< from a micro-batch's forward pass to its backward pass
  step,         ///< from the first pass of the step to the last
};

/// When a unit's gradient is handed to the update policy.
enum class ReduceWhen {
  never,  ///< there is nobody to reduce with
  last,   ///< when the last micro-batch has added its share
  every,  ///< after each micro-batch
};

struct LoweringOptions {
  bool backward = true;           ///< false: an evaluation, forward passes and their messages alone
  bool gathers = false;           ///< parameters are gathered before use (a store of shards)
  KeepGathered keep = KeepGathered::step;
  int prefetch = 1;               ///< a gather starts so many unit passes before its parameters are needed
  ReduceWhen reduce = ReduceWhen::never;
  bool reduce_inside = true;      ///< directly behind the unit's backward pass; false: behind the pass of the whole chunk
};

/// `units`[stage][chunk]: how many units the chunk has. The result names them (Schedule::units). Instructions keep their order; peers and
/// messages are those of `schedule`. UsageError for a prefetch below 0, a chunk without units, or counts that do not fit the schedule.
Schedule lower(const Schedule& schedule, const UnitCounts& units, const LoweringOptions& options);

/// Instructions [begin, result) of a stage's list are passes through neighbouring units of one chunk with nothing between them: they may run as
/// one. `begin` must be a forward or backward instruction.
std::size_t end_of_joined_pass(const std::vector<Instruction>& list, std::size_t begin);

/// Most bytes of gathered parameters that a stage holds at once, by the bytes of each unit. 0 for a list without gathers.
std::int64_t peak_gathered(const Schedule& schedule, int stage, const std::function<std::int64_t(int chunk, int unit)>& bytes);

}  // namespace thinwire
