#include "experiments/slurm/job_script.h"

#include <cmath>

#include "core/error.h"

namespace thinwire::sweep {

std::string shell_quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word)
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  return quoted + "'";
}

namespace {

// A value of an #SBATCH line: sbatch splits the line at spaces and takes double quotes off.
std::string option(const std::string& name, const std::string& value) {
  if (value.find_first_of("\n\r\"\\") != std::string::npos)
    throw UsageError("`" + value + "` cannot stand in a job script: a line break, a double quote or a backslash; choose another folder");
  return "#SBATCH --" + name + "=\"" + value + "\"\n";
}
std::string option(const std::string& name, int value) {
  return "#SBATCH --" + name + "=" + std::to_string(value) + "\n";
}

// sbatch puts job numbers in place of %A, %a, ...
std::string without_patterns(const std::string& path) {
  std::string plain;
  for (const char c : path) plain += c == '%' ? "%%" : std::string(1, c);
  return plain;
}

}  // namespace

std::string job_script(const Submission& s, std::size_t index) {
  const Machine& machine = *s.paths.machine;
  const SlurmSettings& slurm = machine.slurm;
  const PlannedArray& array = s.arrays.at(index);
  const Shape& shape = array.shape;
  const int last = static_cast<int>(array.tasks.size()) - 1;
  std::string text = "#!/bin/bash\n";
  text += option("job-name", s.submitted.at(index).name);
  text += "#SBATCH --array=0-" + std::to_string(last) + "%" + std::to_string(slurm.array_width) + "\n";
  text += option("nodes", shape.nodes);
  text += option("ntasks", shape.ranks);
  if (shape.nodes > 1) text += option("ntasks-per-node", shape.ranks_per_node);
  text += option("cpus-per-task", shape.cores_per_rank);
  if (shape.gpus_per_node > 0) text += option("gpus-per-node", shape.gpus_per_node);
  if (array.memory_gib > 0)
    text += option("mem", std::to_string(static_cast<int>(std::ceil(array.memory_gib * 1024 * shape.ranks_per_node))) + "M");
  if (!slurm.partition.empty()) text += option("partition", slurm.partition);
  if (!slurm.account.empty()) text += option("account", slurm.account);
  if (!slurm.qos.empty()) text += option("qos", slurm.qos);
  text += option("time", slurm.time_limit);
  text += slurm.requeue ? "#SBATCH --requeue\n" : "#SBATCH --no-requeue\n";
  // To this script's process only: the task tells its launch, and saves what it takes to go on.
  text += "#SBATCH --signal=B:USR1@" + std::to_string(slurm.signal_lead) + "\n";
  text += "#SBATCH --open-mode=append\n";
  text += option("chdir", s.paths.out);
  text += option("output", without_patterns(s.folder) + "/task-" + std::to_string(index) + "-%a.log");
  for (const std::string& own : slurm.options) text += "#SBATCH " + own + "\n";
  text += "# Written by `sweep submit` for machine `" + machine.name + "`. Cells and their parameters are in tasks.json.\n";
  for (const std::string& module : machine.modules) text += "module load " + shell_quoted(module) + " || exit 3\n";
  for (const std::string& line : machine.setup) text += line + "\n";
  text += "exec " + shell_quoted(s.paths.bin + "/sweep") + " task " + shell_quoted(s.folder) + " " + std::to_string(index) + "\n";
  return text;
}

}  // namespace thinwire::sweep
