// How a launch is started, and the rows that the sweep itself writes for cells that could not be measured.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "experiments/study/expand.h"
#include "experiments/study/machine.h"
#include "experiments/run/process.h"
#include "results/row.h"

namespace thinwire::sweep {

/// Where things are.
struct RunPaths {
  std::string out;  ///< result folder
  std::string bin;  ///< folder of the programs
  std::string lab;  ///< experiments/lab/launch.sh
  std::shared_ptr<const Machine> machine = std::make_shared<Machine>();  ///< how programs are started
  std::string launch_file(const std::string& id) const { return out + "/launches/" + id + ".json"; }
  std::string journal(const std::string& id) const { return out + "/journal/" + id + ".jsonl"; }
  std::string log(const std::string& id) const { return out + "/logs/" + id + ".log"; }
  std::string resume() const { return out + "/resume"; }  ///< what cells keep that ended early on request
};

/// Folder of this program, and launch.sh beside the source tree or the installation.
std::string default_bin();
std::string default_lab(const std::string& bin);

/// Makes the folders of `out`. Throws EnvironmentError when they cannot be written.
void make_out(const RunPaths& paths);
/// The first free launch id, "0001", "0002", ..., taken for this process by an empty launch file: other processes may work in the
/// same folder.
std::string next_launch_id(const RunPaths& paths);
/// OUT/launches/<id>.json, the contract with the benches (docs/sweeps.md).
void write_launch_file(const RunPaths& paths, const std::string& id, const Launch& launch,
                       std::span<const PlannedCell> cells);
/// mpirun or srun as the machine's profile says, or the lab's launcher for netns links; no shell anywhere. Throws UsageError when
/// the machine cannot run it.
Command command_for(const RunPaths& paths, const std::string& id, const Launch& launch);

/// Why a launch ended, from its log: the program's first error, else mpirun's note, else the last line.
std::string reason_from_log(const std::string& path);
/// Text after "SKIPPED: " in the log, or empty.
std::string skip_reason_from_log(const std::string& path);

/// Records FAILED, TIMEOUT or SKIPPED for a cell, under the build of its program.
void write_verdict(const RunPaths& paths, const std::string& id, const PlannedCell& cell,
                   results::Status status, const std::string& reason);

/// Throws EnvironmentError when a program is not in `bin`, UsageError when a cell has a parameter that its
/// program has no option for (asked by PROGRAM --help; programs that cannot answer are not checked).
void check_programs(const RunPaths& paths, std::span<const PlannedCell> cells, bool must_exist);

}  // namespace thinwire::sweep
