// What became of the cells, as tables on stdout.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>

#include "experiments/study/expand.h"
#include "results/record.h"

namespace thinwire::sweep {

struct CellState {
  results::RecordState record = results::RecordState::missing;
  results::Status status = results::Status::ok;
  std::string reason;
  std::string code;  ///< of the program that wrote the record (results::code_of)
  std::string text;  ///< that it was measured on (RecordCheck::text)
};

/// State of every cell, in order. Throws CorruptData when a record has another schema version: it is left
/// alone.
std::vector<CellState> states_of(std::span<const PlannedCell> cells, const std::string& out);

/// Wall seconds of the launches, by program and link.
using Seconds = std::map<std::pair<std::string, std::string>, double>;

/// One line per program and link: cells, OK, WRONG, FAILED, TIMEOUT, MISTRUSTED, SKIPPED, missing; seconds
/// where given. Then the reasons of what is neither OK nor missing, each once with its count.
void print_summary(std::span<const PlannedCell> cells, std::span<const CellState> states,
                   const Seconds& seconds);

/// Exit status for the whole study: 1 when a cell is WRONG, else 6 when one FAILED, else 4 for a TIMEOUT,
/// else 0.
int exit_status_of(std::span<const CellState> states);

}  // namespace thinwire::sweep
