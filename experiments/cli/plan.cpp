// sweep plan: the matrix, the launches, what is done and what the rest costs; starts nothing.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "core/error.h"
#include "experiments/slurm/job_script.h"
#include "experiments/study/plan_table.h"
#include "experiments/cli/study_options.h"
#include "experiments/cli/command.h"

namespace thinwire::sweep {
namespace {

struct PlanOptions : StudyOptions {
  bool list = false;
};

// What `sweep submit` would send now, but for the names of the jobs; cells that are in the queue already are not taken out.
void print_job_scripts(const RunPaths& paths, std::span<const PlannedCell> cells, std::span<const CellState> states,
                       const Estimates& estimates) {
  std::vector<PlannedCell> todo;
  std::map<std::string, int> refused;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (states[i].record == results::RecordState::finished && !Choice().redo.contains(states[i].status)) continue;
    try {
      shape_of(*paths.machine, cells[i].link, cells[i].ranks, cells[i].omp_threads);
      todo.push_back(cells[i]);
    } catch (const UsageError& error) {
      ++refused[error.what()];
    }
  }
  for (const auto& [reason, count] : refused) std::printf("\n%d cells stay: %s\n", count, reason.c_str());
  const Submission submission = draft(paths, todo, estimates);
  for (std::size_t k = 0; k < submission.arrays.size(); ++k) {
    const PlannedArray& array = submission.arrays[k];
    std::size_t n = 0;
    for (const auto& task : array.tasks) n += task.size();
    std::printf("\narray %zu: %zu cells in %zu tasks, longest task about %.1f min\n%s", k, n, array.tasks.size(),
                *std::max_element(array.seconds.begin(), array.seconds.end()) / 60, job_script(submission, k).c_str());
  }
  std::fflush(stdout);
}

int plan(const PlanOptions& options) {
  const Study study = study_of(options);
  const std::vector<PlannedCell> cells = planned(options, study);
  const RunPaths paths = run_paths_of(options);
  check_programs(paths, cells, /*must_exist=*/false);
  const std::vector<CellState> states = states_of(cells, paths.out);
  ProgramCodes codes(paths.bin);
  PlanTable table;
  table.list_cells = options.list;
  table.cores_per_node = paths.machine->cores_per_node > 0 ? paths.machine->cores_per_node
                                                            : std::max<int>(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  print_matrix(study);
  std::puts("");
  const Estimates estimates(cells, paths.out);
  print_launches(cells, states, estimates, codes, table);
  if (paths.machine->slurm.present) print_job_scripts(paths, cells, states, estimates);
  return 0;
}

}  // namespace

CommandBody add_plan_command(CLI::App& command) {
  auto options = std::make_shared<PlanOptions>();
  add_study_options(command, *options, /*needs_study=*/false);
  command.add_flag("--list", options->list, "every cell with its parameters");
  return [options] { return plan(*options); };
}

}  // namespace thinwire::sweep
