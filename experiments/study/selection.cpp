#include "experiments/study/selection.h"

#include "core/error.h"
#include "core/joined.h"
#include "core/process/log.h"
#include "results/provenance.h"

namespace thinwire::sweep {

using results::RecordState;
using results::Status;

namespace {

/// Claims and races ask for a folder's cells in a hundred small batches: of the first that holds some of these programs a reader is told.
void warn_once(const std::string& about, const std::string& warning) {
  static std::set<std::string> warned;
  if (warned.insert(about).second) log_warning(warning);
}

}  // namespace

const std::string& ProgramCodes::of(const std::string& program) {
  const auto [at, is_new] = codes_.try_emplace(program);
  if (is_new) at->second = results::code_of(results::hash_of_binary(bin_ + "/" + program));
  return at->second;
}

bool is_from_other_code(const PlannedCell& cell, const CellState& state, ProgramCodes& codes) {
  if (state.record != RecordState::finished) return false;
  if (state.status != Status::ok && state.status != Status::wrong && state.status != Status::mistrusted) return false;
  const std::string& now = codes.of(cell.program);
  return !now.empty() && state.code != now;
}

Selection selection_of(std::span<const PlannedCell> cells, std::span<const CellState> states, const Choice& choice, ProgramCodes& codes) {
  Selection selection;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    bool again = states[i].record != RecordState::finished || choice.redo.contains(states[i].status);
    if (!again && is_from_other_code(cells[i], states[i], codes)) {
      selection.other_build.push_back(cells[i]);
      again = choice.if_code_changed == IfCodeChanged::redo;
    }
    if (again) selection.to_run.push_back(cells[i]);
  }
  return selection;
}

std::vector<PlannedCell> cells_to_run(std::span<const PlannedCell> cells, std::span<const CellState> states, const Choice& choice,
                                      const std::string& bin, const std::string& out) {
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (states[i].record == RecordState::damaged)
      log_warning(results::record_path(out, cells[i].cell_id) + ": " + states[i].reason + "; the cell runs again");
  ProgramCodes codes(bin);
  const auto [todo, others] = selection_of(cells, states, choice, codes);
  if (others.empty()) return todo;
  std::set<std::string> changed;
  for (const PlannedCell& cell : others) changed.insert(cell.program);
  const std::string what = std::to_string(others.size()) + " of " + std::to_string(cells.size()) + " cells in " + out +
                           " were measured by another build of " + joined(changed);
  if (choice.if_code_changed == IfCodeChanged::error)
    throw UsageError(what + "; measure them again with --if-code-changed redo, let them stand beside new ones with --if-code-changed keep, or " +
                     "choose another folder with --out");
  if (choice.if_code_changed == IfCodeChanged::keep)
    warn_once(out + "\n" + joined(changed), what + " and stand, as others of them here will (--if-code-changed keep); /provenance tells them apart");
  else
    log_info(what + "; they run again");
  return todo;
}

}  // namespace thinwire::sweep
