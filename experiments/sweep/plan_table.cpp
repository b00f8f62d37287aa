#include "experiments/sweep/plan_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <unordered_map>

namespace thinwire::sweep {

using results::RecordState;

namespace {

constexpr std::size_t most_values = 8;

std::string joined(const std::vector<std::string>& texts, const char* between) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : between) + text;
  return all;
}

std::string values_of(const Axis& axis) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(axis.points.size(), most_values); ++i) {
    std::vector<std::string> point;
    for (const ParameterValue& value : axis.points[i]) point.push_back(results::to_text(value));
    shown.push_back(joined(point, " "));
  }
  if (axis.points.size() > most_values) shown.push_back(fmt::format("... ({} in all)", axis.points.size()));
  return joined(shown, axis.names.size() > 1 ? " | " : ", ");
}

std::size_t cells_of(const Grid& grid) {
  std::size_t product = 1;
  for (const Axis& axis : grid.axes) product *= axis.points.size();
  return product;
}

struct Tally {
  std::size_t cells = 0, done = 0, other_build = 0, to_run = 0, unknown = 0;
  double hours = 0;
  void add(const Tally& more) {
    cells += more.cells, done += more.done, other_build += more.other_build, to_run += more.to_run, unknown += more.unknown;
    hours += more.hours;
  }
  std::string hours_text() const {
    if (to_run == 0) return "-";
    if (unknown == to_run) return "unknown";
    return fmt::format("{}{:.3f}", unknown > 0 ? ">" : "", hours);
  }
};

}  // namespace

void print_matrix(const Study& study) {
  for (const Grid& grid : study.grids) {
    fmt::print("{}: {}, {} points{}{}{}\n", grid.name, grid.program, cells_of(grid), grid.ranks.empty() ? "" : ", ranks " + grid.ranks,
               grid.excludes.empty() ? "" : fmt::format(", {} exclusions", grid.excludes.size()),
               grid.tags.empty() ? "" : ", tags " + joined(grid.tags, " "));
    for (const Axis& axis : grid.axes) fmt::print("  {:<24} {}\n", joined(axis.names, ", "), values_of(axis));
  }
}

void print_launches(std::span<const PlannedCell> cells, std::span<const CellState> states, const Estimates& estimates, ProgramCodes& codes,
                    const PlanTable& table) {
  const std::vector<Launch> launches = group_into_launches({cells.begin(), cells.end()});
  std::unordered_map<std::string, const CellState*> state_of;
  for (std::size_t i = 0; i < cells.size(); ++i) state_of[cells[i].cell_id] = &states[i];
  const Choice choice;
  Tally all;
  fmt::print("{:<18} {:<16} {:>6} {:>6} {:>6} {:>11} {:>6} {:>10}\n", "program", "link", "ranks", "cells", "done", "other build", "to run",
             "node-hours");
  for (const Launch& launch : launches) {
    Tally tally;
    std::string list;
    for (const PlannedCell& cell : launch.cells) {
      const CellState& state = *state_of[cell.cell_id];
      const bool finished = state.record == RecordState::finished;
      ++tally.cells;
      if (finished) ++tally.done;
      if (is_from_other_code(cell, state, codes)) ++tally.other_build;
      if (!finished || choice.redo.contains(state.status)) {
        ++tally.to_run;
        if (const auto seconds = estimates.seconds_of(cell))
          tally.hours += node_hours(cell, *seconds, table.cores_per_node);
        else
          ++tally.unknown;
      }
      if (table.list_cells)
        list += fmt::format("  {} {:<10} {}{}\n", cell.cell_id.substr(0, 16), finished ? results::name_of(state.status) : "-",
                            cell.parameters.canonical_json(), cell.tags.empty() ? "" : " # " + joined(cell.tags, " "));
    }
    fmt::print("{:<18} {:<16} {:>6} {:>6} {:>6} {:>11} {:>6} {:>10}\n{}", launch.program, launch.link, launch.ranks, tally.cells, tally.done,
               tally.other_build, tally.to_run, tally.hours_text(), list);
    all.add(tally);
  }
  fmt::print("{} cells in {} launches, {} done, {} to run", all.cells, launches.size(), all.done, all.to_run);
  if (all.to_run > 0)
    fmt::print(": {} node-hours of {} cores{}", all.hours_text(), table.cores_per_node,
               all.unknown > 0 ? fmt::format(" ({} cells of unknown length: give their grid `minutes`, or run one)", all.unknown) : "");
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace thinwire::sweep
