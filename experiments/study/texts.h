// Texts that cells were measured on. The default one is the machine's Python library, which an update changes, and numbers of two texts do not compare.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "experiments/study/summary.h"

namespace thinwire::sweep {

/// Cells of each text (RecordCheck::text) of each program. Records that name none do not count.
using Texts = std::map<std::string, std::map<std::string, std::size_t>>;
/// Of finished cells.
Texts texts_of(std::span<const PlannedCell> cells, std::span<const CellState> states);
/// "0123456789abcdef... (12 cells), ..."
std::string to_words(const std::map<std::string, std::size_t>& cells_of_text);

/// Warns, while a study runs, of the first cell of a program on a text that none of its cells that stand is of.
class TextWatch {
 public:
  /// `cells`: of the study; those in `todo` do not stand.
  TextWatch(std::span<const PlannedCell> cells, std::span<const CellState> states, std::span<const PlannedCell> todo);
  /// `text`: of the record of a cell just measured. Returns the warning, empty where there is none, and logs it.
  std::string measured(const PlannedCell& cell, const std::string& text);

 private:
  Texts standing_;
};

}  // namespace thinwire::sweep
