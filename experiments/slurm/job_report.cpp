#include "experiments/slurm/job_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "experiments/slurm/queue.h"
#include "experiments/run/leases.h"

namespace thinwire::sweep {

JobCounts print_jobs(std::span<const PlannedCell> cells, std::span<const CellState> states, const std::string& out) {
  // A record that says FAILED, TIMEOUT or SKIPPED may be about to be replaced by a job that submit sent for it.
  std::set<std::string> open, again, asked;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (states[i].record != results::RecordState::finished)
      open.insert(cells[i].cell_id);
    else if (states[i].status == results::Status::failed || states[i].status == results::Status::timeout || states[i].status == results::Status::skipped)
      again.insert(cells[i].cell_id);
  }
  std::set_union(open.begin(), open.end(), again.begin(), again.end(), std::inserter(asked, asked.end()));
  const std::map<std::string, CellJob> jobs = jobs_of_cells(out, asked);
  const std::map<std::string, std::string> held = leased_cells(out);
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
  int repeated = 0;
  for (const std::string& cell : again) {
    const auto job = jobs.find(cell);
    if (job == jobs.end() || job->second.resubmit || job->second.state.empty()) continue;
    ++repeated;
    ++(job->second.shown == "RUNNING" || job->second.shown == "SUSPENDED" ? counts.running : counts.waiting);
  }
  if (repeated > 0) fmt::print("{} cells that failed, timed out or were skipped are to be measured again by jobs in the queue\n", repeated);
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
