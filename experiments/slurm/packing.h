// Which cells go into which job.
#pragma once

#include <span>
#include <vector>

#include "experiments/study/estimate.h"
#include "experiments/run/launcher.h"

namespace thinwire::sweep {

/// One sbatch: an array whose tasks have the same shape. A task is a list of paths in the span of cells.
struct PlannedArray {
  Shape shape;
  double memory_gib = 0;  ///< per rank, 0: not asked for
  std::vector<std::vector<std::size_t>> tasks;
  std::vector<double> seconds;  ///< expected, by task
};

/// Expected seconds of a cell: measured in this folder, else what the study says, else the profile's cell_seconds.
double expected_seconds(const PlannedCell& cell, const Estimates& estimates, const Machine& machine);

/// Cells that share a launch stay together and in order; launches of one shape share tasks, which are filled up to
/// `minutes_per_job`. A cell longer than that has a task of its own. At most 1000 tasks per array (Slurm's default limit).
/// Throws UsageError when the machine cannot run a cell.
std::vector<PlannedArray> pack(std::span<const PlannedCell> cells, const Machine& machine, const Estimates& estimates);

}  // namespace thinwire::sweep
