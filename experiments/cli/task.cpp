// sweep task: what a job script starts. Runs the cells of one task of a submission, and goes back to the queue when its time is over.
// sweep rank: sets a rank's GPU in front of its program.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/clock.h"
#include "core/process/environment.h"
#include "core/error.h"
#include "core/process/log.h"
#include "core/process/stop_request.h"
#include "experiments/slurm/queue.h"
#include "experiments/run/leases.h"
#include "experiments/run/runner.h"
#include "experiments/cli/command.h"
#include "results/journal.h"

namespace thinwire::sweep {
namespace {

namespace fs = std::filesystem;

struct TaskOptions {
  std::string folder;
  std::size_t array = 0;
  int task = -1;
};

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

class Task {
 public:
  Task(Submission submission, std::size_t array, std::size_t task)
      : submission_(std::move(submission)),
        name_(std::to_string(array) + "-" + std::to_string(task)),
        journal_(submission_.folder + "/task-" + name_ + ".jsonl") {
    if (array >= submission_.arrays.size() || task >= submission_.arrays[array].tasks.size())
      throw UsageError(submission_.folder + " has no task " + std::to_string(task) + " of array " + std::to_string(array));
    for (const std::size_t cell : submission_.arrays[array].tasks[task]) mine_.push_back(submission_.cells[cell]);
    const std::string job = Environment::get("SLURM_ARRAY_JOB_ID").value_or(Environment::get("SLURM_JOB_ID").value_or("0"));
    who_ = job + "_" + std::to_string(task);
    note("task_started", who_ + " on " + host() + ", start " + Environment::get("SLURM_RESTART_COUNT").value_or("0"));
  }

  int run() {
    const RunPaths& paths = submission_.paths;
    make_out(paths);
    const std::size_t at_start = unfinished().size();
    const std::optional<fs::file_time_type> kept_at_start = newest_kept_state();
    bool stopped = false;
    {
      CellLeases leases(paths.out, "task-" + submission_.id + "-" + name_, "job " + who_);
      // Cells that a dead node seems to hold are free once nobody has touched its lease for long enough.
      for (const Stopwatch waited; !stopped; sleep_until_ns(now_ns() + 5'000'000'000)) {
        const std::vector<PlannedCell> todo = unfinished();
        if (todo.empty()) break;
        bool others = false;
        stopped = !run_some(leases, todo, others);
        if (stopped || !others || waited.seconds() > 120) break;
      }
    }
    const std::size_t left = unfinished().size();
    if (left == 0) {
      note("task_finished", "");
      return 0;
    }
    if (!stopped) {
      note("task_ended", std::to_string(left) + " cells are left, which other runners hold");
      return 0;
    }
    if (signal_ == SIGUSR1) return back_to_queue(left, left < at_start || newest_kept_state() != kept_at_start);
    note("task_ended", "by signal " + std::to_string(signal_) + " with " + std::to_string(left) + " cells left");
    return static_cast<int>(ExitCode::stopped);
  }

 private:
  void note(const std::string& event, const std::string& text) {
    journal_.append({event, "", text, 0});
    log_info("task " + name_ + ": " + event + (text.empty() ? "" : ": " + text));
  }

  // Without the record that the submission asked for: none, a damaged one, or still the one that is to be replaced.
  std::vector<PlannedCell> unfinished() const {
    std::vector<PlannedCell> left;
    const std::string& out = submission_.paths.out;
    for (const SubmittedCell& mine : mine_) {
      const bool is_new = record_time(out, mine.cell.cell_id) != mine.before;
      if (!is_new || !results::is_finished(results::record_path(out, mine.cell.cell_id))) left.push_back(mine.cell);
    }
    return left;
  }

  // Of what this task's cells keep to go on from; none: they keep nothing.
  std::optional<fs::file_time_type> newest_kept_state() const {
    std::optional<fs::file_time_type> newest;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(submission_.paths.resume(), error)) {
      const std::string name = entry.path().filename().string();
      if (std::ranges::none_of(mine_, [&](const SubmittedCell& mine) { return name.starts_with(mine.cell.cell_id); })) continue;
      const fs::file_time_type time = entry.last_write_time(error);
      if (!error && (!newest || time > *newest)) newest = time;
    }
    return newest;
  }

  // False when the run was ended from outside. `others`: cells were left that other runners hold.
  bool run_some(CellLeases& leases, const std::vector<PlannedCell>& todo, bool& others) {
    if (stop_requested()) {
      signal_ = SIGUSR1;
      return false;
    }
    RunOptions options;
    options.paths = submission_.paths;
    options.retries = submission_.retries;
    options.max_failures = submission_.max_failures;
    options.choice.if_code_changed = IfCodeChanged::redo;
    for (int s = 0; s < 6; ++s) options.choice.redo.insert(static_cast<results::Status>(s));
    options.hooks.lease = [&](std::vector<PlannedCell> cells) {
      std::vector<std::string> ids;
      for (const PlannedCell& cell : cells) ids.push_back(cell.cell_id);
      const std::map<std::string, std::string> held = leases.take(ids);
      for (const auto& [cell, owner] : held) log_info("cell " + cell.substr(0, 16) + " is left to " + owner);
      others = !held.empty();
      std::erase_if(cells, [&](const PlannedCell& cell) { return held.contains(cell.cell_id); });
      return cells;
    };
    options.hooks.keep_alive = [&] { return leases.renew(); };
    options.hooks.ended_from_outside = [] {
      sleep_until_ns(now_ns() + 1'000'000'000);  // Slurm ends the ranks first, then changes the state of the job
      return !own_job_goes_on();
    };
    // The rest of the lead is for this process: journal, requeue.
    options.hooks.stop_grace = std::max(5.0, submission_.paths.machine->slurm.signal_lead - 15.0);
    const std::vector<CellState> states(todo.size());  // all of them shall run
    const RunReport report = run_cells(todo, states, options);
    if (report.stopped) note("task_note", "stopped after " + std::to_string(submission_.max_failures) + " failures in a row");
    signal_ = report.signal != 0 ? report.signal : report.asked_to_stop ? SIGUSR1 : 0;
    return signal_ == 0 && !report.stopped;
  }

  // The next start has as much time as this one: who got nowhere would come back for ever.
  int back_to_queue(std::size_t left, bool progress) {
    std::string why = submission_.paths.machine->slurm.requeue ? "no cell ended in the time that a job has, and none kept a state to go on from: raise time_limit" : "the profile says requeue = false";
    if (submission_.paths.machine->slurm.requeue && progress) {
      note("task_requeue", std::to_string(left) + " cells are left");
      if (requeue_own_job(submission_.folder + "/task-" + name_ + ".requeue.log", why)) {
        sleep_until_ns(now_ns() + 60'000'000'000);  // Slurm ends this process
        return static_cast<int>(ExitCode::stopped);
      }
    }
    note("task_ended", "not requeued (" + why + "), " + std::to_string(left) + " cells left: submit again");
    return static_cast<int>(ExitCode::stopped);
  }

  Submission submission_;
  std::string name_, who_;
  results::Journal journal_;
  std::vector<SubmittedCell> mine_;
  int signal_ = 0;
};

int task(const TaskOptions& options) {
  watch_for_stop_request();
  int task = options.task;
  if (task < 0) {
    const auto given = Environment::get("SLURM_ARRAY_TASK_ID");
    if (!given)
      throw UsageError("sweep task runs inside a job of `sweep submit` (SLURM_ARRAY_TASK_ID is not set); by hand: --task N");
    task = std::atoi(given->c_str());
  }
  return Task(read_submission(options.folder), options.array, static_cast<std::size_t>(task)).run();
}

struct RankOptions {
  std::vector<int> gpus;
};

int rank(const RankOptions& options, const std::vector<std::string>& command) {
  if (command.empty()) throw UsageError("sweep rank --gpus 0,1,... PROGRAM ARGUMENT...");
  int local = 0;
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"})
    if (const auto value = Environment::get(name)) {
      local = std::atoi(value->c_str());
      break;
    }
  if (local < 0 || static_cast<std::size_t>(local) >= options.gpus.size())
    throw UsageError("local rank " + std::to_string(local) + " has no GPU in gpu_of_local_rank of the machine profile");
  setenv("CUDA_VISIBLE_DEVICES", std::to_string(options.gpus[static_cast<std::size_t>(local)]).c_str(), 1);
  std::vector<std::string> words = command;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  throw EnvironmentError("cannot start `" + command[0] + "`");
}

}  // namespace

CommandBody add_task_command(CLI::App& command) {
  auto options = std::make_shared<TaskOptions>();
  command.group("");  // for job scripts
  command.add_option("folder", options->folder, "OUT/slurm/NNNN")->required();
  command.add_option("array", options->array, "which array of it")->required();
  command.add_option("--task", options->task, "which task (default: SLURM_ARRAY_TASK_ID)");
  return [options] { return task(*options); };
}

CommandBody add_rank_command(CLI::App& command) {
  auto options = std::make_shared<RankOptions>();
  command.group("");  // for launchers
  command.add_option("--gpus", options->gpus, "GPU of local rank 0, 1, ...")->delimiter(',')->required();
  command.prefix_command();
  return [options, &command] { return rank(*options, command.remaining()); };
}

}  // namespace thinwire::sweep
