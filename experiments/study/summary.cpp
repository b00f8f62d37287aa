#include "experiments/study/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/error.h"

namespace thinwire::sweep {

using results::RecordState;
using results::Status;

namespace {

constexpr std::array all_statuses = {Status::ok,      Status::wrong,      Status::failed,
                                     Status::timeout, Status::mistrusted, Status::skipped};

struct Count {
  std::array<int, all_statuses.size()> by_status{};
  int missing = 0, total = 0;
  void add(const CellState& state) {
    ++total;
    if (state.record == RecordState::finished)
      ++by_status[static_cast<std::size_t>(state.status)];
    else
      ++missing;
  }
};

void print_line(const std::string& program, const std::string& link, const Count& count, double seconds) {
  fmt::print("{:<18} {:<16} {:>6}", program, link, count.total);
  for (const int n : count.by_status) fmt::print(" {:>10}", n);
  fmt::print(" {:>8}", count.missing);
  fmt::print("{}\n", seconds >= 0 ? fmt::format(" {:>8.1f}", seconds) : "");
}

}  // namespace

std::vector<CellState> states_of(std::span<const PlannedCell> cells, const std::string& out) {
  std::vector<CellState> states;
  for (const PlannedCell& cell : cells) {
    const std::string path = results::record_path(out, cell.cell_id);
    const results::RecordCheck check = results::check_record(path);
    if (check.state == RecordState::other_schema)
      throw CorruptData(path + ": " + check.reason +
                        "; it is left as it is: choose another --out, or use the thinwire that wrote it");
    states.push_back({check.state, check.status, check.reason, check.code, check.text});
  }
  return states;
}

void print_summary(std::span<const PlannedCell> cells, std::span<const CellState> states,
                   const Seconds& seconds) {
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, Count> counts;
  std::map<std::string, int> reasons;
  Count all;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto key = std::pair(cells[i].program, cells[i].link);
    if (!counts.contains(key)) order.push_back(key);
    counts[key].add(states[i]);
    all.add(states[i]);
    if (states[i].record == RecordState::finished && states[i].status != Status::ok)
      ++reasons[fmt::format("{} {}: {}", cells[i].program, name_of(states[i].status),
                            states[i].reason.empty() ? "no reason given" : states[i].reason)];
    if (states[i].record == RecordState::damaged)
      ++reasons[fmt::format("{} damaged record: {}", cells[i].program, states[i].reason)];
  }
  fmt::print("{:<18} {:<16} {:>6}", "program", "link", "cells");
  for (const Status status : all_statuses) fmt::print(" {:>10}", name_of(status));
  fmt::print(" {:>8}{}\n", "missing", seconds.empty() ? "" : "  seconds");
  double total_seconds = 0;
  for (const auto& key : order) {
    const auto found = seconds.find(key);
    const double s = seconds.empty() ? -1 : found == seconds.end() ? 0 : found->second;
    total_seconds += std::max(s, 0.0);
    print_line(key.first, key.second, counts[key], s);
  }
  if (order.size() > 1) print_line("all", "", all, seconds.empty() ? -1 : total_seconds);
  constexpr std::size_t most_reasons = 20;
  std::size_t shown = 0;
  for (const auto& [reason, count] : reasons) {
    if (++shown > most_reasons) {
      fmt::print("... and {} further reasons (column `reason` of /cells)\n", reasons.size() - most_reasons);
      break;
    }
    fmt::print("{:>6} x {}\n", count, reason);
  }
  std::fflush(stdout);
}

int exit_status_of(std::span<const CellState> states) {
  const auto any = [&](Status status) {
    return std::any_of(states.begin(), states.end(), [&](const CellState& s) {
      return s.record == RecordState::finished && s.status == status;
    });
  };
  if (any(Status::wrong)) return static_cast<int>(ExitCode::wrong_result);
  if (any(Status::failed)) return static_cast<int>(ExitCode::runtime_failure);
  if (any(Status::timeout)) return static_cast<int>(ExitCode::timeout);
  return 0;
}

}  // namespace thinwire::sweep
