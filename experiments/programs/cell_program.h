// What the programs that run cells share: where cells are run, and how the program ends when they were not.
#pragma once

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/process/log.h"
#include "experiments/claims/cells.h"

namespace thinwire::claims {

/// As the command line has them.
struct CellOptions {
  std::string out, bin, lab, if_code_changed = "error";
  std::string begin_with;  ///< a collected file whose cells count as measured
};

/// UsageError for another word than keep, redo or error.
inline CellRunner runner_of(const CellOptions& options) {
  sweep::RunPaths paths;
  paths.out = std::filesystem::absolute(options.out);
  paths.bin = options.bin.empty() ? sweep::default_bin() : std::string(std::filesystem::absolute(options.bin));
  paths.lab = options.lab.empty() ? sweep::default_lab(paths.bin) : std::string(std::filesystem::absolute(options.lab));
  const std::vector<std::string> known = {"keep", "redo", "error"};
  const auto found = std::find(known.begin(), known.end(), options.if_code_changed);
  if (found == known.end()) throw UsageError("--if-code-changed " + options.if_code_changed + ": keep, redo or error");
  CellRunner runner(paths, static_cast<sweep::IfCodeChanged>(found - known.begin()));
  if (!options.begin_with.empty()) runner.begin_with(options.begin_with);
  return runner;
}

/// The exit code of `body`. Where its cells were interrupted the process ends by that signal, and where they could not be started the error that
/// says why leaves.
inline int with_cells(const std::function<int()>& body) {
  try {
    return body();
  } catch (const Refused& refused) {
    throw refused.error;
  } catch (const Interrupted& interrupted) {
    log_error("interrupted; the same command goes on from what is finished");
    std::signal(interrupted.signal, SIG_DFL);
    std::raise(interrupted.signal);
    return 0;  // not reached: the signal ends the process
  }
}

}  // namespace thinwire::claims
