#include "experiments/run/estimate.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "results/files/files.h"
#include "results/journal.h"

namespace thinwire::sweep {

namespace {
// Program and link of a launch of which this study has no cell; nothing when its file is gone or damaged: an estimate can do without.
std::optional<std::pair<std::string, std::string>> launch_of(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto json = nlohmann::json::parse(results::read_file(path), nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* key) { return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : ""; };
  if (text("program").empty()) return std::nullopt;
  return std::pair(text("program"), text("link"));
}
}  // namespace

Estimates::Estimates(std::span<const PlannedCell> cells, const std::string& out) {
  std::unordered_map<std::string, const PlannedCell*> by_id;
  for (const PlannedCell& cell : cells) by_id.emplace(cell.cell_id, &cell);
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(out + "/journal", error)) {
    if (file.path().extension() != ".jsonl") continue;
    std::optional<std::pair<std::string, std::string>> what;  // all cells of a launch share program and link
    std::set<std::string> finished;
    double seconds = 0;
    for (const results::JournalEntry& entry : results::JournalReader(file.path().string()).poll()) {
      // What the sweep adds after the end has a clock of its own.
      if (entry.event == "cell_verdict" || entry.event == "cell_retry") continue;
      seconds = std::max(seconds, entry.elapsed);
      if (entry.event != "cell_finished") continue;
      finished.insert(entry.cell_id);
      if (const auto found = by_id.find(entry.cell_id); !what && found != by_id.end()) what = {found->second->program, found->second->link};
    }
    if (finished.empty()) continue;
    if (!what) what = launch_of(out + "/launches/" + file.path().stem().string() + ".json");
    if (!what) continue;
    Pace& pace = paces_[*what];
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
