// A run whose first steps are trained under other settings, on another mesh or stage: what --checkpoint and --resume do in two runs, in one, so that one cell says both.
#pragma once

#include <optional>
#include <string>

#include "bench/harness/bench_program.h"
#include "models/training/checkpoint/checkpoint.h"

namespace thinwire::bench {

inline constexpr const char *moved_at_option = "moved-at", *moved_from_option = "moved-from";

struct MovedStart {
  std::int64_t steps = 0;  ///< trained there
  TrainConfig from;        ///< under these settings
};

/// What a cell's parameters say of it, beside the settings of `config`; nothing where --moved-at is 0. UsageError for settings that do not fit.
std::optional<MovedStart> moved_start_of(const CellParameters& parameters, const TrainConfig& config);

/// Collective. Trains those steps and saves them, and gives `trainer`, fresh from make(), what the file holds; the file is removed. Steps go over `world`, the file over `files`, the same ranks
/// without a link's time. Errors as of load_checkpoint.
ResumeReport begin_moved(Communicator& world, Communicator& files, ParallelTrainer& trainer, const TrainConfig& config, const MovedStart& start);

}  // namespace thinwire::bench
