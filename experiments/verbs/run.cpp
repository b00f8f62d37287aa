// sweep run: what is missing or broken.
#include <algorithm>
#include <csignal>
#include <memory>
#include "core/error.h"
#include "core/log.h"
#include "experiments/sweep/lock.h"
#include "experiments/sweep/runner.h"
#include "experiments/verbs/study_options.h"
#include "experiments/verbs/verb.h"
#include "results/files.h"

namespace thinwire::sweep {
namespace {

struct RunVerbOptions : StudyOptions {
  std::vector<std::string> redo;
  int max_failures = 0;
};

std::set<results::Status> redo_of(const std::vector<std::string>& names) {
  if (names.empty()) return RunOptions().redo;
  std::set<results::Status> redo;
  const std::vector<std::string> known = {"none",   "all",     "ok",         "wrong",
                                          "failed", "timeout", "mistrusted", "skipped"};
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      throw UsageError("--redo " + name + ": no such status; did you mean " +
                       nearest_name(name, known.data(), known.data() + known.size()) +
                       "? (none, all, ok, wrong, failed, timeout, mistrusted, skipped)");
    for (int s = 0; s < 6; ++s)
      if (name == "all" || found - known.begin() == s + 2) redo.insert(static_cast<results::Status>(s));
  }
  return redo;
}

int run(const RunVerbOptions& options) {
  const std::vector<PlannedCell> cells = planned(options);
  RunOptions run_options;
  run_options.places = places_of(options);
  run_options.redo = redo_of(options.redo);
  run_options.max_failures = options.max_failures;
  const Places& places = run_options.places;
  check_programs(places, cells, /*must_exist=*/true);
  make_out(places);
  int signal = 0, status = 0;
  {
    const FolderLock lock(places.out);
    const Study study = study_of(options);
    results::write_file_atomically(places.out + "/" + study.name + ".study.toml", study.text);
    const RunReport report = run_cells(cells, states_of(cells, places.out), run_options);
    const std::vector<CellState> states = states_of(cells, places.out);
    print_summary(cells, states, report.seconds.empty() ? Seconds{{{"", ""}, 0.0}} : report.seconds);
    if (report.stopped)
      log_error("stopped after " + std::to_string(options.max_failures) +
                " failures (--max-failures); the rest was not run");
    signal = report.signal;
    status = exit_status_of(states);
  }
  if (signal != 0) {
    log_error("interrupted; the same command continues where this one stopped");
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // the caller sees how this process ended
  }
  return status;
}

}  // namespace

VerbBody add_run_verb(CLI::App& verb) {
  auto options = std::make_shared<RunVerbOptions>();
  add_study_options(verb, *options);
  verb.add_option("--redo", options->redo,
                  "also run again cells of this status: none, all, ok, wrong, failed, timeout, mistrusted, skipped "
                  "(default: failed timeout skipped)")
      ->allow_extra_args(false);
  verb.add_option("--max-failures", options->max_failures, "stop after this many failures; 0: never")
      ->check(CLI::NonNegativeNumber);
  verb.add_option("--lab", options->lab, "launcher of netns links (default: experiments/lab/launch.sh)");
  return [options] { return run(*options); };
}

}  // namespace thinwire::sweep
