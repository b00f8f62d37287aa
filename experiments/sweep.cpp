// sweep: runs studies. plan | run | status | collect, all of which may be repeated at will.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "core/log.h"
#include "core/main_guard.h"
#include "experiments/sweep/lock.h"
#include "experiments/sweep/runner.h"
#include "results/collect.h"
#include "results/files.h"

namespace {

using namespace thinwire;
using namespace thinwire::sweep;

struct Options {
  std::string study, out = "out", bin, lab;
  std::vector<std::string> settings, where, redo;
  int max_failures = 0;
  bool list = false, allow_mixed_corpus = false;
};

std::vector<PlannedCell> planned(const Options& options) {
  Study study = read_study(options.study);
  for (const std::string& setting : options.settings) apply_setting(study, setting);
  std::vector<PlannedCell> cells = expand(study);
  for (const std::string& where : options.where) cells = filter(std::move(cells), where);
  if (cells.empty())
    throw UsageError("no cell of " + options.study + " is left by --where; `sweep plan --list` shows all");
  return cells;
}

Places places_of(const Options& options) {
  Places places;
  // Absolute: programs get these paths, wherever they are started.
  places.out = std::filesystem::absolute(options.out).lexically_normal().string();
  while (places.out.size() > 1 && places.out.back() == '/') places.out.pop_back();
  places.bin = options.bin.empty() ? default_bin() : std::filesystem::absolute(options.bin).string();
  places.lab =
      options.lab.empty() ? default_lab(places.bin) : std::filesystem::absolute(options.lab).string();
  return places;
}

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

int plan(const Options& options) {
  const std::vector<PlannedCell> cells = planned(options);
  const Places places = places_of(options);
  check_programs(places, cells, /*must_exist=*/false);
  print_plan(cells, states_of(cells, places.out), options.list);
  return 0;
}

int run(const Options& options) {
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
    const Study study = read_study(options.study);
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

int status(const Options& options) {
  const std::vector<PlannedCell> cells = planned(options);
  const std::vector<CellState> states = states_of(cells, places_of(options).out);
  print_summary(cells, states, {});
  return exit_status_of(states);
}

int collect(const Options& options) {
  const Places places = places_of(options);
  results::CollectOptions collect_options;
  collect_options.allow_mixed_corpus = options.allow_mixed_corpus;
  if (!options.study.empty())
    for (const PlannedCell& cell : planned(options)) collect_options.cell_ids.push_back(cell.cell_id);
  const results::CollectReport report = results::collect(places.out, collect_options);
  for (const std::string& damaged : report.damaged) log_warning("left out: " + damaged);
  if (!report.missing.empty())
    log_warning(std::to_string(report.missing.size()) +
                " cells of the study have no record yet; sweep run measures them");
  std::printf("%s: %zu rows, %zu samples%s\n", report.path.c_str(), report.rows.size(), report.samples,
              report.damaged.empty()
                  ? ""
                  : (", " + std::to_string(report.damaged.size()) + " damaged files left out").c_str());
  return report.damaged.empty() ? 0 : static_cast<int>(ExitCode::runtime_failure);
}

int dispatch(int argc, char** argv) {
  Options options;
  CLI::App app("Runs studies: expands a TOML file into cells, runs what is missing, collects the results.",
               "sweep");
  app.require_subcommand(1);
  const auto common = [&](CLI::App* verb, bool needs_study) {
    auto* study = verb->add_option("study", options.study, "study file (TOML), see docs/sweeps.md");
    if (needs_study) study->required();
    verb->add_option("--out", options.out, "result folder")->capture_default_str();
    verb->add_option("--set", options.settings,
                     "name=value: one value in place of an axis or a fixed parameter")
        ->allow_extra_args(false);
    verb->add_option("--where", options.where, "'codec=topk and tp=4': only these cells")
        ->allow_extra_args(false);
    verb->add_option("--bin", options.bin, "folder of the programs (default: of sweep itself)");
  };
  CLI::App* plan_verb = app.add_subcommand("plan", "show the launches and what is done; starts nothing");
  common(plan_verb, true);
  plan_verb->add_flag("--list", options.list, "every cell with its parameters");
  CLI::App* run_verb = app.add_subcommand("run", "run what is missing or broken");
  common(run_verb, true);
  run_verb
      ->add_option(
          "--redo", options.redo,
          "also run again cells of this status: none, all, ok, wrong, failed, timeout, mistrusted, skipped "
          "(default: failed timeout skipped)")
      ->allow_extra_args(false);
  run_verb->add_option("--max-failures", options.max_failures, "stop after this many failures; 0: never")
      ->check(CLI::NonNegativeNumber);
  run_verb->add_option("--lab", options.lab, "launcher of netns links (default: experiments/lab/launch.sh)");
  CLI::App* status_verb = app.add_subcommand("status", "count the cells by status");
  common(status_verb, true);
  CLI::App* collect_verb = app.add_subcommand("collect", "merge the records into OUT/collected.h5");
  common(collect_verb, false);
  collect_verb->add_flag("--allow-mixed-corpus", options.allow_mixed_corpus,
                         "accept cells that stem from different texts");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError("sweep: " + std::string(error.what()) +
                     ". All options: sweep --help, sweep VERB --help");
  }
  if (plan_verb->parsed()) return plan(options);
  if (run_verb->parsed()) return run(options);
  if (status_verb->parsed()) return status(options);
  return collect(options);
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, dispatch);
}
