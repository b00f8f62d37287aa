#include "experiments/sweep/estimate.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>

#include "results/journal.h"

namespace thinwire::sweep {

Estimates::Estimates(std::span<const PlannedCell> cells, const std::string& out) {
  std::unordered_map<std::string, const PlannedCell*> by_id;
  for (const PlannedCell& cell : cells) by_id.emplace(cell.cell_id, &cell);
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(out + "/journal", error)) {
    if (file.path().extension() != ".jsonl") continue;
    const PlannedCell* any = nullptr;  // all cells of a launch share program and link
    std::set<std::string> finished;
    double seconds = 0;
    for (const results::JournalEntry& entry : results::JournalReader(file.path().string()).poll()) {
      // What the sweep adds after the end has a clock of its own.
      if (entry.event == "cell_verdict" || entry.event == "cell_retry") continue;
      seconds = std::max(seconds, entry.elapsed);
      if (entry.event != "cell_finished") continue;
      finished.insert(entry.cell_id);
      if (const auto found = by_id.find(entry.cell_id); any == nullptr && found != by_id.end()) any = found->second;
    }
    if (any == nullptr) continue;
    Pace& pace = paces_[{any->program, any->link}];
    pace.seconds += seconds;
    pace.cells += finished.size();
  }
}

std::optional<double> Estimates::seconds_of(const PlannedCell& cell) const {
  const auto found = paces_.find({cell.program, cell.link});
  if (found != paces_.end() && found->second.seconds > 0) return found->second.seconds / static_cast<double>(found->second.cells);
  if (cell.minutes > 0) return cell.minutes * 60;
  return std::nullopt;
}

double node_hours(const PlannedCell& cell, double seconds, int cores_per_node) {
  return cell.ranks * seconds / 3600 / std::max(cores_per_node, 1);
}

}  // namespace thinwire::sweep
