#include "experiments/study/plan_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "core/joined.h"

namespace thinwire::sweep {

using results::RecordState;

namespace {

constexpr std::size_t widest_list = 90;

// Values of one name of an axis, as many as fit; at least one.
std::string values_of(const Axis& axis, std::size_t name) {
  std::string list;
  for (std::size_t i = 0; i < axis.points.size(); ++i) {
    const std::string next = (list.empty() ? "" : ", ") + results::to_text(axis.points[i][name]);
    if (!list.empty() && list.size() + next.size() > widest_list) return fmt::format("{}, ... ({} in all)", list, axis.points.size());
    list += next;
  }
  return list;
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
    return fmt::format("{}{:.{}f}", unknown > 0 ? ">" : "", hours, hours < 0.1 ? 4 : 2);
  }
};

}  // namespace

void print_matrix(const Study& study) {
  for (const Grid& grid : study.grids) {
    fmt::print("{}: {}, {} points{}{}{}\n", grid.name, grid.program, cells_of(grid), grid.ranks.empty() ? "" : ", ranks " + grid.ranks,
               grid.excludes.empty() ? "" : fmt::format(", {} exclusions", grid.excludes.size()),
               grid.tags.empty() ? "" : ", tags " + joined(grid.tags, " "));
    for (const Axis& axis : grid.axes)
      for (std::size_t k = 0; k < axis.names.size(); ++k)
        fmt::print("  {} {:<22} {}\n", k == 0 ? 'x' : '&', axis.names[k], values_of(axis, k));
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
    fmt::print(": node-hours of {} cores: {}{}", table.cores_per_node, all.hours_text(),
               all.unknown > 0 ? fmt::format(" ({} cells of unknown length: give their grid `minutes`, or run one)", all.unknown) : "");
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace thinwire::sweep
