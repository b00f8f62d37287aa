// What all commands on a study take: the study, its result folder, and which of its cells.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "experiments/study/expand.h"
#include "experiments/run/launcher.h"

namespace thinwire::sweep {

struct StudyOptions {
  std::string study, out = "out", bin, lab, machine;
  std::vector<std::string> settings, where, tags;
};

/// Adds them to a command; `options` must live as long as the command.
void add_study_options(CLI::App& command, StudyOptions& options, bool needs_study = true);

/// The study, or the one that was started in the result folder when none is named, with --set applied. Throws UsageError and
/// EnvironmentError like read_study.
Study study_of(const StudyOptions& options);
/// Its cells that --where and --tag leave; UsageError when none is left.
std::vector<PlannedCell> planned(const StudyOptions& options, const Study& study);
std::vector<PlannedCell> planned(const StudyOptions& options);
/// Absolute paths: programs get them, wherever they are started.
RunPaths run_paths_of(const StudyOptions& options);

}  // namespace thinwire::sweep
