// Which cells of a study have to be run.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "experiments/study/summary.h"

namespace thinwire::sweep {

/// What to do about measured cells whose program has been built anew since.
enum class IfCodeChanged {
  keep,   ///< they stand, with a warning
  redo,   ///< they run again
  error,  ///< UsageError: the user decides
};

struct Choice {
  std::set<results::Status> redo = {results::Status::failed, results::Status::timeout, results::Status::skipped};
  IfCodeChanged if_code_changed = IfCodeChanged::error;
};

/// The code (results::code_of) of each program in a folder, hashed once; empty for programs that are not there.
class ProgramCodes {
 public:
  explicit ProgramCodes(std::string bin) : bin_(std::move(bin)) {}
  const std::string& of(const std::string& program);

 private:
  std::string bin_;
  std::map<std::string, std::string> codes_;
};

/// Whether a finished, measured record (OK, WRONG, MISTRUSTED) was written by another build of the program than the one in `codes`.
/// The other statuses say nothing about the code's numbers. False when the program is not there.
bool is_from_other_code(const PlannedCell& cell, const CellState& state, ProgramCodes& codes);

/// What a choice makes of cells.
struct Selection {
  std::vector<PlannedCell> to_run;       ///< without a finished record, with a status in `redo`, or of another build where these are to be run again
  std::vector<PlannedCell> other_build;  ///< whose record would stand, had not another build measured it; whatever the choice makes of them
};
/// Without a word or a refusal: what plans ask.
Selection selection_of(std::span<const PlannedCell> cells, std::span<const CellState> states, const Choice& choice, ProgramCodes& codes);

/// The cells without a finished record, with a status in `redo`, or, as `choice` says, measured by another build. Warns of damaged
/// records and of kept ones. `bin`: folder of the programs. Throws UsageError for IfCodeChanged::error.
std::vector<PlannedCell> cells_to_run(std::span<const PlannedCell> cells, std::span<const CellState> states, const Choice& choice,
                                      const std::string& bin, const std::string& out);

}  // namespace thinwire::sweep
