// race: which training configuration reaches a loss first on a link. run | plan.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <unistd.h>

#include "core/error.h"
#include "core/process/log.h"
#include "core/process/command_line.h"
#include "core/process/main_guard.h"
#include "experiments/programs/cell_program.h"
#include "experiments/race/entrant_settings.h"
#include "experiments/race/race_cells.h"
#include "experiments/race/race_report.h"
#include "results/files/files.h"
#include "results/provenance.h"
#include "results/record.h"

namespace {

using namespace thinwire;
using namespace thinwire::race;

struct Options : claims::CellOptions {
  std::string course;
  std::vector<std::string> more;  ///< files of further entrants
  std::string text;               ///< raced on instead of the course's
  bool time_anew = false;         ///< timed cells of `begin_with` are not taken
};

Course course_of(const Options& options) {
  Course course = read_course(options.course);
  for (const std::string& file : options.more) add_entrants(course, file);
  if (!options.text.empty()) race_on_text(course, options.text);
  check_settings(course);
  return course;
}

/// The baseline's target: as it was registered in this folder, or tuned and registered now.
Registered registered(const Course& course, const Options& options, const TrainRuns& train) {
  const std::string path = options.out + "/" + registered_file;
  if (std::filesystem::exists(path)) {
    Registered r = registered_from(results::read_file(path), path);
    if (r.course != course.registered_text())
      throw UsageError(options.course + ": its baseline, horizon, rates, seeds or settings are not those under which " + path + " registered a target; race in another folder (--out)");
    return r;
  }
  Registered r{course.registered_text(), none, tune(course, course.baseline(), none, train), ""};
  r.target = target_of(course, r.baseline, train), r.date = results::timestamp_now();
  results::write_file_atomically(path, to_json(r));
  return r;
}

/// A race that goes on in another folder keeps its target: what was registered lies beside the collected cells.
void take_registered(const Options& options) {
  if (options.begin_with.empty()) return;
  const std::filesystem::path kept = std::filesystem::absolute(options.begin_with).parent_path() / registered_file, here = std::filesystem::path(options.out) / registered_file;
  if (std::filesystem::exists(here) || !std::filesystem::exists(kept)) return;
  results::write_file_atomically(here, results::read_file(kept));
}

int run(const Options& options) {
  const Course course = course_of(options);
  claims::CellRunner runner = claims::runner_of(options);
  if (options.time_anew) runner.time_anew();
  results::make_folder(options.out);
  take_registered(options);
  RaceCells cells(course, runner);
  const TrainRuns train = [&](std::span<const LossRequest> requests) { return cells.train(requests); };
  const Registered r = registered(course, options, train);
  char target[96];
  std::snprintf(target, sizeof target, "target %.4f nats per token, registered %s", r.target, r.date.c_str());
  log_info(course.name + ": " + target);
  std::vector<Performance> performances;
  double tuning_target = none;  // the baseline, which comes first, sets it
  for (const Entrant& entrant : course.entrants) {
    log_info(course.name + ": " + entrant.name + ", " + std::to_string(performances.size() + 1) + " of " + std::to_string(course.entrants.size()));
    if (performances.size() == 1 && std::any_of(course.entrants.begin() + 1, course.entrants.end(), [](const Entrant& e) { return e.rate == 0; }))
      tuning_target = tuning_target_of(course, performances.front(), train);
    Performance p = tune(course, entrant, tuning_target, train);
    run_seeds(course, entrant, r.target, p, train);
    log_info(course.name + ": " + entrant.name + ": " + to_text(p));
    performances.push_back(std::move(p));
  }
  const Leaderboard board = rank(course, r.target, performances, cells.time(performances));
  results::write_file_atomically(options.out + "/race.json", to_json(board, r, performances));
  const std::vector<RaceRow> rows = rows_of(board);
  const std::vector<CurveRow> curves = curves_of(board, performances);
  results::write_h5_atomically(options.out + "/race.h5", [&](h5::File& file) {
    file.write_table("race", results::to_table(std::span<const RaceRow>(rows), race_columns()));
    file.write_table("race_curves", results::to_table(std::span<const CurveRow>(curves), curve_columns()));
  });
  results::write_file_atomically(options.out + "/race.txt", to_text(board));
  std::fputs(to_text(board).c_str(), stdout);
  return 0;
}

/// Runs are counted in horizons, since only the runs tell how many an entrant takes.
int plan(const Options& options) {
  const Course course = course_of(options);
  const double tuning = static_cast<double>(course.rates.size()) / 2 + 2, seeds = static_cast<double>(course.seeds.size());
  // Runs of one rank are trained side by side.
  const double together = course.loss.ranks == 1 ? static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))) : 1;
  double least = 0, most = 0, least_minutes = 0, most_minutes = 0;
  for (const Entrant& e : course.entrants) {
    const bool first = &e == &course.baseline();
    const double few = e.rate > 0 ? seeds * e.horizons : course.rates.size() == 1 ? 1 + seeds : tuning + seeds;
    const double many = e.rate > 0 ? seeds * e.horizons : (course.rates.size() == 1 ? 1 : tuning + 1.5) + (first ? seeds : 2 * course.longest - 2 + seeds * course.longest);
    const double minutes = course.horizon * (e.step_seconds > 0 ? e.step_seconds : course.loss.seconds) / 60 / together;
    least += few, most += many, least_minutes += few * minutes, most_minutes += many * minutes;
  }
  const std::size_t cells = course.entrants.size() * course.links.size() * static_cast<std::size_t>(course.windows);
  std::printf("%s: %zu entrants, %zu seed%s, %zu links\n%.1f to %.1f runs of %d steps, %zu timed cells\n", course.name.c_str(), course.entrants.size(), course.seeds.size(), course.seeds.size() == 1 ? "" : "s", course.links.size(), least, most,
              course.horizon, cells);
  if (course.loss.seconds > 0 && course.time.seconds > 0) {
    const double timed = static_cast<double>(cells) * course.time.seconds / 60;
    std::printf("at the rates that the course states: %.0f to %.0f minutes of training and %.0f of timed cells, %.0f to %.0f in all\n", least_minutes, most_minutes, timed, least_minutes + timed,
                most_minutes + timed);
  } else {
    std::printf("how long that takes is not known: the course states no step_seconds in [loss] or no cell_seconds in [time]\n");
  }
  return 0;
}

int dispatch(int argc, char** argv) {
  Options options;
  CLI::App app("Races training configurations to a loss: steps to the target x time of a step, by link (docs/race.md).", "race");
  app.require_subcommand(1);
  CLI::App* run_command = app.add_subcommand("run", "run what is missing, rank the entrants; the same command goes on after a kill");
  CLI::App* plan_command = app.add_subcommand("plan", "how many runs that takes; starts nothing");
  for (CLI::App* command : {run_command, plan_command}) {
    command->add_option("course", options.course, "a course (experiments/race/courses/*.toml)")->required();
    command->add_option("--entrants", options.more, "a file of further [[entrant]] tables (again for more)")->allow_extra_args(false);
    command->add_option("--text", options.text, "your text, a file or folder, instead of the course's; a target that the course states is then set by its baseline");
  }
  run_command->add_option("--out", options.out, "result folder")->required();
  run_command->add_option("--bin", options.bin, "folder of the programs (default: beside this one)");
  CLI::Option* begin_with = run_command->add_option(
      "--begin-with", options.begin_with,
      "a collected file whose cells count as measured, with registered.json beside it where a target was registered; the rest is run (of another build: --if-code-changed keep)");
  run_command->add_flag("--time-anew", options.time_anew, "of --begin-with take the trainings alone, so that all entrants are timed together")->needs(begin_with);
  run_command->add_option("--lab", options.lab, "launcher of netns links (default: experiments/lab/launch.sh)");
  run_command->add_option("--if-code-changed", options.if_code_changed, "cells whose program was built anew since: keep, redo, or error")->capture_default_str();
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  if (plan_command->parsed()) return plan(options);
  return claims::with_cells([&] { return run(options); });
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, dispatch);
}
