#include "experiments/slurm/job_report.h"

#include <fmt/core.h>

#include <map>
#include <set>

#include "experiments/slurm/queue.h"
#include "experiments/sweep/claims.h"

namespace thinwire::sweep {

JobCounts print_jobs(std::span<const PlannedCell> cells, std::span<const CellState> states, const std::string& out) {
  std::set<std::string> open;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (states[i].record != results::RecordState::finished) open.insert(cells[i].cell_id);
  const std::map<std::string, CellJob> jobs = jobs_of_cells(out, open);
  const std::map<std::string, std::string> held = claimed_cells(out);
  JobCounts counts;
  std::map<std::string, int> shown, reasons;
  for (const std::string& cell : open) {
    const auto job = jobs.find(cell);
    const auto owner = held.find(cell);
    if (job != jobs.end()) {
      ++shown[job->second.shown];
      ++reasons[job->second.shown + ": " + job->second.reason];
      if (job->second.resubmit)
        ++counts.lost;
      else
        ++(job->second.shown == "RUNNING" || job->second.shown == "SUSPENDED" ? counts.running : counts.waiting);
    } else if (owner != held.end()) {
      ++shown["RUNNING"];
      ++reasons["RUNNING: " + owner->second];
      ++counts.running;
    }
  }
  if (shown.empty()) return counts;
  std::string line;
  for (const auto& [word, count] : shown) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", count, word);
  fmt::print("of {} cells without a record: {}\n", open.size(), line);
  constexpr std::size_t most = 20;
  std::size_t printed = 0;
  for (const auto& [reason, count] : reasons) {
    if (++printed > most) {
      fmt::print("... and {} further ones (squeue, sacct)\n", reasons.size() - most);
      break;
    }
    fmt::print("{:>6} x {}\n", count, reason);
  }
  std::fflush(stdout);
  return counts;
}

}  // namespace thinwire::sweep
