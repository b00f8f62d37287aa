// sweep status: the cells counted by what became of them.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "core/clock.h"
#include "experiments/slurm/job_report.h"
#include "experiments/study/selection.h"
#include "experiments/study/texts.h"
#include "experiments/cli/study_options.h"
#include "experiments/cli/command.h"

namespace thinwire::sweep {
namespace {

void print_other_builds(std::span<const PlannedCell> cells, std::span<const CellState> states, const std::string& bin) {
  ProgramCodes codes(bin);
  std::map<std::string, std::size_t> counts;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (is_from_other_code(cells[i], states[i], codes)) ++counts[cells[i].program];
  for (const auto& [program, count] : counts)
    std::printf("%6zu cells were measured by another build of %s (sweep run asks what to do: --if-code-changed)\n", count, program.c_str());
}

void print_texts(std::span<const PlannedCell> cells, std::span<const CellState> states) {
  for (const auto& [program, texts] : texts_of(cells, states))
    if (texts.size() > 1) std::printf("cells of %s are of different texts, by SHA-256: %s (sweep collect refuses them)\n", program.c_str(), to_words(texts).c_str());
}

struct StatusOptions : StudyOptions {
  std::optional<double> watch;
};

int show(const StatusOptions& options, JobCounts& jobs) {
  const std::vector<PlannedCell> cells = planned(options);
  const RunPaths paths = run_paths_of(options);
  const std::vector<CellState> states = states_of(cells, paths.out);
  print_summary(cells, states, {});
  jobs = print_jobs(cells, states, paths.out);
  print_other_builds(cells, states, paths.bin);
  print_texts(cells, states);
  return exit_status_of(states);
}

// Asks a shared controller as seldom as serves: the pause doubles while nothing changes. Reads only: it may be killed at any time.
int status(const StatusOptions& options) {
  constexpr double longest = 300;
  JobCounts jobs;
  int result = show(options, jobs);
  if (!options.watch) return result;
  double pause = *options.watch;
  while (jobs.waiting + jobs.running > 0) {
    std::printf("(again in %.0f s)\n\n", pause);
    std::fflush(stdout);
    sleep_until_ns(now_ns() + static_cast<std::int64_t>(pause * 1e9));
    const JobCounts before = jobs;
    result = show(options, jobs);
    pause = jobs == before ? std::min(2 * pause, std::max(longest, *options.watch)) : *options.watch;
  }
  return result;
}

}  // namespace

CommandBody add_status_command(CLI::App& command) {
  auto options = std::make_shared<StatusOptions>();
  add_study_options(command, *options, /*needs_study=*/false);
  command.add_option("--watch", options->watch, "again every SECONDS (at least 10; longer while nothing changes) until no job is left")
      ->expected(0, 1)
      ->default_str("15")
      ->check(CLI::Range(10, 86400));
  return [options] { return status(*options); };
}

}  // namespace thinwire::sweep
