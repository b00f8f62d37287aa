// What `run` and `resume` share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/run/runner.h"
#include "experiments/cli/study_options.h"

namespace thinwire::sweep {

struct RunCommandOptions : StudyOptions {
  std::vector<std::string> redo;
  std::string if_code_changed = "error";
  int max_failures = RunOptions().max_failures, retries = 0;
  std::optional<std::uint64_t> shuffle;
};

/// Adds all of them but those of a study. `options` must live as long as the command.
void add_run_options(CLI::App& command, RunCommandOptions& options);
/// --redo and --if-code-changed. Throws UsageError naming the nearest value.
Choice choice_of(const RunCommandOptions& options);
RunOptions run_options_of(const RunCommandOptions& options);

/// Runs what is missing, prints the table, and returns the exit status. `resume`: the folder must hold this study already.
int run_study(const RunCommandOptions& options, bool resume);

}  // namespace thinwire::sweep
