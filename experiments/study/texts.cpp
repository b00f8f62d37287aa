#include "experiments/study/texts.h"

#include <set>

#include "core/process/log.h"

namespace thinwire::sweep {

namespace {

void count(Texts& texts, const PlannedCell& cell, const CellState& state) {
  if (state.record == results::RecordState::finished && !state.text.empty()) ++texts[cell.program][state.text];
}

}  // namespace

Texts texts_of(std::span<const PlannedCell> cells, std::span<const CellState> states) {
  Texts texts;
  for (std::size_t i = 0; i < cells.size(); ++i) count(texts, cells[i], states[i]);
  return texts;
}

std::string to_words(const std::map<std::string, std::size_t>& cells_of_text) {
  std::string words;
  for (const auto& [text, cells] : cells_of_text) words += (words.empty() ? "" : ", ") + text + "... (" + std::to_string(cells) + (cells == 1 ? " cell)" : " cells)");
  return words;
}

TextWatch::TextWatch(std::span<const PlannedCell> cells, std::span<const CellState> states, std::span<const PlannedCell> todo) {
  std::set<std::string> runs;
  for (const PlannedCell& cell : todo) runs.insert(cell.cell_id);
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (!runs.contains(cells[i].cell_id)) count(standing_, cells[i], states[i]);
}

std::string TextWatch::measured(const PlannedCell& cell, const std::string& text) {
  const auto standing = standing_.find(cell.program);
  if (text.empty() || standing == standing_.end() || standing->second.contains(text)) return "";
  const std::string warning = "cells of " + cell.program + " that were measured before are of a text of SHA-256 " + to_words(standing->second) + ", and now it is " + text +
                              "...: has an update changed the Python library? `sweep collect` refuses cells of different texts; --redo all measures them all on this one";
  log_warning(warning);
  standing_.erase(standing);  // said once
  return warning;
}

}  // namespace thinwire::sweep
