// sweep run: what is missing or broken. sweep resume: the same, in a folder where a study was started.
#include "experiments/cli/run.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include "core/error.h"
#include "core/joined.h"
#include "core/process/log.h"
#include "experiments/archive/archive.h"
#include "experiments/run/leases.h"
#include "experiments/run/lock.h"
#include "experiments/study/saved_study.h"
#include "experiments/cli/command.h"

namespace thinwire::sweep {
namespace {

/// Position of `name` in `known`; UsageError with the nearest otherwise.
std::size_t choice_among(const std::vector<std::string>& known, const std::string& option, const std::string& name) {
  const auto found = std::find(known.begin(), known.end(), name);
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  throw UsageError(option + " " + name + ": there is no such value; did you mean " + nearest_name(name, known.data(), known.data() + known.size()) +
                   "? (" + joined(known) + ")");
}

RunHooks hooks_of(CellLeases& leases) {
  RunHooks hooks;
  hooks.lease = [&leases](std::vector<PlannedCell> cells) {
    std::vector<std::string> ids;
    for (const PlannedCell& cell : cells) ids.push_back(cell.cell_id);
    const std::map<std::string, std::string> held = leases.take(ids);
    std::map<std::string, int> owners;
    for (const auto& [cell, owner] : held) ++owners[owner];
    for (const auto& [owner, count] : owners) log_info(std::to_string(count) + " cells are left to " + owner + ", which is running them");
    std::erase_if(cells, [&](const PlannedCell& cell) { return held.contains(cell.cell_id); });
    return cells;
  };
  hooks.keep_alive = [&leases] { return leases.renew(); };
  return hooks;
}

// The caller sees how this process ended.
void end_by(int signal) {
  log_error("interrupted; the same command continues where this one stopped");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void add_run_options(CLI::App& command, RunCommandOptions& options) {
  command.add_option("--redo", options.redo,
                  "also run again cells of this status: none, all, ok, wrong, failed, timeout, mistrusted, skipped "
                  "(default: failed timeout skipped)")
      ->allow_extra_args(false);
  command.add_option("--if-code-changed", options.if_code_changed,
                  "measured cells whose program was built anew since: keep, redo, or error")
      ->capture_default_str();
  command.add_option("--retries", options.retries, "further attempts for a cell that fails or times out")->check(CLI::Range(0, 100));
  command.add_option("--max-failures", options.max_failures, "stop after this many failures in a row; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--shuffle", options.shuffle, "SEED of a random order of launches and of the cells in each");
  command.add_option("--lab", options.lab, "launcher of netns links (default: experiments/lab/launch.sh)");
}

Choice choice_of(const RunCommandOptions& options) {
  Choice choice;
  choice.if_code_changed = static_cast<IfCodeChanged>(choice_among({"keep", "redo", "error"}, "--if-code-changed", options.if_code_changed));
  if (options.redo.empty()) return choice;
  choice.redo.clear();
  for (const std::string& name : options.redo) {
    const std::size_t found = choice_among({"none", "all", "ok", "wrong", "failed", "timeout", "mistrusted", "skipped"}, "--redo", name);
    for (std::size_t s = 0; s < 6; ++s)
      if (name == "all" || found == s + 2) choice.redo.insert(static_cast<results::Status>(s));
  }
  return choice;
}

RunOptions run_options_of(const RunCommandOptions& options) {
  RunOptions run_options;
  run_options.paths = run_paths_of(options);
  run_options.choice = choice_of(options);
  run_options.retries = options.retries;
  run_options.max_failures = options.max_failures;
  run_options.shuffle = options.shuffle;
  return run_options;
}

int run_study(const RunCommandOptions& options, bool resume) {
  const Study study = study_of(options);
  const std::vector<PlannedCell> cells = planned(options, study);
  RunOptions run_options = run_options_of(options);
  const RunPaths& paths = run_options.paths;
  if (resume && !std::filesystem::exists(saved_study_path(paths.out, study.name)))
    throw UsageError(paths.out + ": the study `" + study.name + "` was not started in this folder, so there is nothing to resume; `sweep run` starts it");
  check_programs(paths, cells, /*must_exist=*/true);
  make_out(paths);
  RunReport report;
  int status = 0;
  {
    const FolderLock lock(paths.out);
    // Tasks of `sweep submit` may be at work in the same folder: what they hold is theirs.
    CellLeases leases(paths.out, "run", "sweep run, process " + std::to_string(getpid()));
    run_options.hooks = hooks_of(leases);
    save_study(study, paths.out);
    save_machine(*paths.machine, paths.out);
    report = run_cells(cells, states_of(cells, paths.out), run_options);
    const std::vector<CellState> states = states_of(cells, paths.out);
    print_summary(cells, states, report.seconds.empty() ? Seconds{{{"", ""}, 0.0}} : report.seconds);
    if (report.stopped)
      log_error("stopped after " + std::to_string(options.max_failures) + " failures in a row (--max-failures); the rest was not run");
    status = exit_status_of(states);
  }
  if (report.asked_to_stop || report.signal == SIGUSR1) {
    log_warning("ended early on request; the same command goes on from what was saved");
    return static_cast<int>(ExitCode::stopped);
  }
  if (report.signal != 0) end_by(report.signal);
  return status;
}

CommandBody add_run_command(CLI::App& command) {
  auto options = std::make_shared<RunCommandOptions>();
  add_study_options(command, *options, /*needs_study=*/false);
  add_run_options(command, *options);
  auto archive = std::make_shared<std::string>();
  command.add_option("--from", *archive, "run the study of this archive (sweep archive) in a new folder");
  return [options, archive] {
    if (options->study.empty() == archive->empty()) throw UsageError("sweep run: name a study file, or an archive with --from");
    if (!archive->empty()) options->study = study_from_archive(*archive, options->out);
    return run_study(*options, /*resume=*/false);
  };
}

CommandBody add_resume_command(CLI::App& command) {
  auto options = std::make_shared<RunCommandOptions>();
  add_study_options(command, *options, /*needs_study=*/false);
  add_run_options(command, *options);
  return [options] { return run_study(*options, /*resume=*/true); };
}

}  // namespace thinwire::sweep
