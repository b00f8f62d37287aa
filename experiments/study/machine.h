// A machine profile (TOML): how launches are started there and what its nodes hold. Format: docs/clusters.md.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace thinwire::sweep {

/// A kind of link of the cells ("shm", "none", "netns", "fabric", "emulated") as this machine has it.
struct MachineLink {
  std::string name;
  std::string description;
  bool one_node = true;              ///< all ranks of a launch on one node; else spread, at most ranks_per_node each
  int ranks_per_node = 0;            ///< overrides that of the machine; 0: does not
  std::vector<std::string> options = {};  ///< of the launcher, after those of the machine
  std::map<std::string, std::string> environment = {};
};

/// All kinds, for the machine without a profile.
std::vector<MachineLink> every_link();

struct SlurmSettings {
  bool present = false;
  std::string partition, account, qos;
  std::string time_limit = "01:00:00";  ///< of a job; requeues and resubmissions go on after it
  int array_width = 8;                  ///< tasks of an array that run at once
  double minutes_per_job = 20;          ///< work that is worth a job's start-up: cells are packed up to it
  double cell_seconds = 30;             ///< expected time of a cell of which nothing is known yet
  bool requeue = true;
  int signal_lead = 120;             ///< seconds before the time limit at which a task saves its state
  std::vector<std::string> options;  ///< of sbatch, as they are
};

struct Machine {
  enum class Launcher { mpirun, srun };
  std::string name = "local";
  std::string description;
  std::string path;  ///< of the file; empty: the built-in default, which is what local.toml says
  std::string text;  ///< of the file
  Launcher launcher = Launcher::mpirun;
  std::vector<std::string> launcher_options = {"--oversubscribe", "--bind-to", "none"};
  int ranks_per_node = 0;  ///< at most; 0: any number (ranks may outnumber cores)
  int cores_per_node = 0;  ///< 0: those of the machine that asks
  int gpus_per_node = 0;
  std::vector<int> gpu_of_local_rank;  ///< local rank r gets GPU [r]; empty: the launcher decides
  std::vector<std::string> modules;    ///< `module load` of each, in job scripts
  std::vector<std::string> setup;      ///< lines of bash, in job scripts
  std::map<std::string, std::string> environment;
  SlurmSettings slurm;
  std::vector<MachineLink> links = every_link();

  /// How cells with this link ("shm", "netns:1gbit") run here; null when the machine has no such link.
  const MachineLink* link_of(const std::string& link) const;
};

/// What a launch asks of the machine; launches of equal shape may share a job.
struct Shape {
  int nodes = 1, ranks = 1, ranks_per_node = 1, cores_per_rank = 1, gpus_per_node = 0;
  auto operator<=>(const Shape&) const = default;
};
/// Throws UsageError when the machine has no such link or a node cannot hold the ranks.
Shape shape_of(const Machine& machine, const std::string& link, int ranks, int omp_threads);

/// NAME of a shipped profile, or a FILE (with a slash, or ending in .toml). `bin`: folder of the programs, beside which installed
/// profiles lie. Throws UsageError: unknown name (with the nearest), unknown keys (with the nearest), values of the wrong kind, each
/// with file and line.
Machine read_machine(const std::string& name_or_file, const std::string& bin);
Machine machine_from_text(const std::string& text, const std::string& path);

}  // namespace thinwire::sweep
