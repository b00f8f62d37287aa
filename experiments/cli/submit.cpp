// sweep submit: what is missing or broken goes to Slurm, as arrays. Repeating the command submits nothing twice.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "core/error.h"
#include "core/process/log.h"
#include "experiments/slurm/job_script.h"
#include "experiments/slurm/queue.h"
#include "experiments/run/leases.h"
#include "experiments/run/lock.h"
#include "experiments/study/saved_study.h"
#include "experiments/cli/run.h"
#include "experiments/cli/command.h"
#include "results/files/files.h"

namespace thinwire::sweep {
namespace {

// Cells that can go to the queue now; the others are counted in a line each.
std::vector<PlannedCell> free_cells(std::vector<PlannedCell> todo, const RunPaths& paths) {
  std::set<std::string> ids;
  std::map<std::string, int> refused;
  std::erase_if(todo, [&](const PlannedCell& cell) {
    try {
      shape_of(*paths.machine, cell.link, cell.ranks, cell.omp_threads);
      ids.insert(cell.cell_id);
      return false;
    } catch (const UsageError& error) {
      ++refused[error.what()];
      return true;
    }
  });
  for (const auto& [reason, count] : refused) log_warning(std::to_string(count) + " cells stay: " + reason);
  const std::map<std::string, CellJob> jobs = jobs_of_cells(paths.out, ids, /*mend=*/true);
  const std::map<std::string, std::string> held = leased_cells(paths.out);
  std::map<std::string, int> busy;
  std::erase_if(todo, [&](const PlannedCell& cell) {
    if (const auto job = jobs.find(cell.cell_id); job != jobs.end() && !job->second.resubmit) {
      ++busy[job->second.shown == "UNKNOWN" ? job->second.reason : job->second.shown];
      return true;
    }
    if (const auto owner = held.find(cell.cell_id); owner != held.end()) {
      ++busy["held by " + owner->second];
      return true;
    }
    return false;
  });
  for (const auto& [word, count] : busy) std::printf("%d cells are submitted already: %s\n", count, word.c_str());
  return todo;
}

// The write-ahead order: what runs, the scripts, the names of the jobs; then sbatch and its answer, array by array. A submit that
// dies at any point leaves either no job, or jobs that their names find.
int send(Submission& s) {
  open_submission(s);
  write_tasks(s);
  for (std::size_t k = 0; k < s.arrays.size(); ++k)
    results::write_file_atomically(s.folder + "/job-" + std::to_string(k) + ".sbatch", job_script(s, k));
  write_submitted(s);
  bool refused = false;
  for (std::size_t k = 0; k < s.arrays.size(); ++k) {
    SubmittedArray& array = s.submitted[k];
    std::size_t cells = 0;
    for (const auto& task : s.arrays[k].tasks) cells += task.size();
    try {
      array.job = sbatch(s.folder + "/job-" + std::to_string(k) + ".sbatch", s.folder + "/sbatch.log");
      std::printf("job %s: %zu cells in %d tasks, %d at a time\n", array.job.c_str(), cells, array.tasks,
                  s.paths.machine->slurm.array_width);
    } catch (const Error& error) {
      array.refused = error.what();
      refused = true;
      log_error(error.what());
    }
    write_submitted(s);
  }
  std::printf("submission %s; `sweep status` follows it, the same command submits what is missing then\n", s.folder.c_str());
  return refused ? static_cast<int>(ExitCode::environment) : 0;
}

int submit(const RunCommandOptions& options) {
  if (options.shuffle) throw UsageError("--shuffle is for `sweep run`: the queue decides in which order tasks run");
  const Study study = study_of(options);
  const std::vector<PlannedCell> cells = planned(options, study);
  const RunOptions run_options = run_options_of(options);
  const RunPaths& paths = run_options.paths;
  if (!paths.machine->slurm.present)
    throw UsageError("machine `" + paths.machine->name + "` has no [slurm] in its profile; name one that has: --machine local-slurm");
  check_programs(paths, cells, /*must_exist=*/true);
  make_out(paths);
  const FolderLock lock(paths.out);
  save_study(study, paths.out);
  save_machine(*paths.machine, paths.out);
  const std::vector<CellState> states = states_of(cells, paths.out);
  const std::vector<PlannedCell> todo =
      free_cells(cells_to_run(cells, states, run_options.choice, paths.bin, paths.out), paths);
  if (todo.empty()) {
    std::puts("nothing to submit");
    return 0;
  }
  Submission s = draft(paths, todo, Estimates(cells, paths.out));
  s.retries = options.retries;
  s.max_failures = options.max_failures;
  return send(s);
}

}  // namespace

CommandBody add_submit_command(CLI::App& command) {
  auto options = std::make_shared<RunCommandOptions>();
  add_study_options(command, *options, /*needs_study=*/false);
  add_run_options(command, *options);
  return [options] { return submit(*options); };
}

}  // namespace thinwire::sweep
