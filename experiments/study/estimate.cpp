#include "experiments/study/estimate.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "results/files/files.h"
#include "results/journal.h"

namespace thinwire::sweep {

namespace {
// Program, link and ranks of a launch of which this study has no cell; nothing when its file is gone or damaged: an estimate can do without.
using Kind = std::tuple<std::string, std::string, int>;

std::optional<Kind> launch_of(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const auto json = nlohmann::json::parse(results::read_file(path), nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* key) { return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : ""; };
  if (text("program").empty()) return std::nullopt;
  const bool has_ranks = json.contains("ranks") && json["ranks"].is_number_integer();
  return Kind(text("program"), text("link"), has_ranks ? json["ranks"].get<int>() : 0);
}
}  // namespace

Estimates::Estimates(std::span<const PlannedCell> cells, const std::string& out) {
  std::unordered_map<std::string, const PlannedCell*> by_id;
  for (const PlannedCell& cell : cells) by_id.emplace(cell.cell_id, &cell);
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(out + "/journal", error)) {
    if (file.path().extension() != ".jsonl") continue;
    std::optional<Kind> what;  // all cells of a launch share it
    std::set<std::string> finished;
    double seconds = 0;
    for (const results::JournalEntry& entry : results::JournalReader(file.path().string()).poll()) {
      // What the sweep adds after the end has a clock of its own.
      if (entry.event == "cell_verdict" || entry.event == "cell_retry") continue;
      seconds = std::max(seconds, entry.elapsed);
      if (entry.event != "cell_finished") continue;
      finished.insert(entry.cell_id);
      if (const auto found = by_id.find(entry.cell_id); !what && found != by_id.end()) what = Kind(found->second->program, found->second->link, found->second->ranks);
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
  const auto mean = [](const Pace& pace) { return pace.seconds / static_cast<double>(pace.cells); };
  const auto found = paces_.find({cell.program, cell.link, cell.ranks});
  if (found != paces_.end() && found->second.seconds > 0) return mean(found->second);
  Pace of_any_ranks;
  for (const auto& [kind, pace] : paces_)
    if (std::get<0>(kind) == cell.program && std::get<1>(kind) == cell.link) {
      of_any_ranks.seconds += pace.seconds;
      of_any_ranks.cells += pace.cells;
    }
  if (of_any_ranks.seconds > 0) return mean(of_any_ranks);
  if (cell.minutes > 0) return cell.minutes * 60;
  return std::nullopt;
}

double node_hours(const PlannedCell& cell, double seconds, int cores_per_node) {
  return cell.ranks * seconds / 3600 / std::max(cores_per_node, 1);
}

}  // namespace thinwire::sweep
