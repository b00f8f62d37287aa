// train_gpt as a bench program: its options, and what it answers without training.
#pragma once

#include <string>

#include "bench/harness/bench_program.h"
#include "models/training/config/train_config.h"

namespace thinwire::bench {

/// Name, options and run_group of train_gpt.
BenchProgram train_program();

/// The configuration that a cell's parameters give. UsageError for values that cannot be read; sizes are not
/// checked yet.
TrainConfig train_config_of(const CellParameters& parameters);

/// --keep-at: after this step a cell of a sweep keeps its state for others, 0: never. UsageError for no such step, and of timed compute.
std::int64_t keep_at_of(const CellParameters& parameters, const TrainConfig& config);

/// UsageError saying what to launch when the mesh has not as many ranks as run.
void require_ranks(const MeshShape& mesh, int running);

/// The study's `plan`, or what is compressed ("dp_gradient+tp_forward"; "dense").
std::string plan_of(const CellParameters& parameters, const TrainConfig& config);

/// Bytes per rank in closed form, one line for ranks of equal size, MiB.
std::string describe_memory(const TrainConfig& config);

}  // namespace thinwire::bench
