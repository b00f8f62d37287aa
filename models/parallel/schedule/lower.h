// Lowers a pipeline schedule to the units that its chunks are made of: every pass of a chunk becomes one instruction per unit, with the
// gathering of parameters and the reduction of gradients where they happen. Executor, step model, memory estimate and trace read that one list.
#pragma once

#include <functional>
#include <vector>

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

/// A matrix that a store of shards has whole for a while only.
struct LentMatrix {
  int id = 0;  ///< two units that read one matrix (a tied table) share its memory
  std::int64_t bytes = 0;
  bool completes = true;  ///< after this unit's backward pass its gradient is complete
};

/// Most bytes that values and gradients of such matrices take at once on a stage, from a pool that keeps memory by size: values between unshard and
/// reshard, gradients from a backward pass until their reduction has arrived, which is when the next unit's starts. `matrices` of each unit.
std::int64_t peak_lent(const Schedule& schedule, int stage, const std::function<std::vector<LentMatrix>(int chunk, int unit)>& matrices);

}  // namespace thinwire
