#include "experiments/run/runner.h"

#include <algorithm>

#include "core/clock.h"
#include "core/error.h"
#include "experiments/run/attempt.h"
#include "experiments/run/signal_watch.h"

namespace thinwire::sweep {

using results::Status;

namespace {

class Runner {
 public:
  Runner(const RunOptions& options, Progress& progress, TextWatch texts)
      : options_(options), progress_(progress), streak_(options.max_failures, options.is_answer), texts_(std::move(texts)) {}

  RunReport report;

  void run(const Launch& launch) {
    const Stopwatch watch;
    again_ = launch.cells;
    for (number_ = 1; !again_.empty() && !is_over(); ++number_) {
      std::vector<PlannedCell> left;
      left.swap(again_);
      while (!left.empty() && !is_over()) left = start(launch, left);
    }
    report.seconds[{launch.program, launch.link}] += watch.seconds();
  }

  bool is_over() const { return report.signal != 0 || report.stopped || report.asked_to_stop; }

 private:
  // Starts the program once; returns the cells that need another start. Those that failed and may be tried again are in again_.
  std::vector<PlannedCell> start(const Launch& launch, const std::vector<PlannedCell>& cells) {
    Attempt attempt(options_.paths, options_.hooks, launch, cells, number_, progress_, streak_, texts_);
    const Attempt::End end = attempt.watch();
    std::vector<PlannedCell> left = attempt.unfinished(cells);
    for (const PlannedCell& cell : cells)
      if (const auto failed = attempt.failed_records().find(cell.cell_id); failed != attempt.failed_records().end())
        try_again(attempt, cell, failed->second);
    if (end == Attempt::End::interrupted)
      report.signal = SignalWatch::pending() != 0 ? SignalWatch::pending() : SIGTERM;  // else its leases were lost
    else if (end == Attempt::End::too_many_failures)
      report.stopped = true;
    else if (attempt.stopped_on_request())
      report.asked_to_stop = true;
    else
      judge(attempt, end, launch, left);
    return left;
  }

  // Gives verdicts to the cells that must not start again and takes them out of `left`. Each start either
  // finishes a cell or condemns one, so the loop above ends.
  void judge(Attempt& attempt, Attempt::End end, const Launch& launch, std::vector<PlannedCell>& left) {
    if (left.empty()) return;
    if (const std::string reason = attempt.skip_reason(); !reason.empty())
      return condemn(attempt, left, "", Status::skipped, reason);
    if (options_.hooks.ended_from_outside && options_.hooks.ended_from_outside()) {
      report.signal = SIGTERM;
      return;
    }
    const std::string blamed = attempt.blamed();
    if (end == Attempt::End::hung) {
      const std::string seconds = std::to_string(static_cast<int>(launch.timeout)) + " s";
      if (blamed.empty())
        condemn(attempt, left, "", Status::timeout,
                "the launch gave no sign of life for " + seconds + " and had not started a cell");
      else
        condemn(attempt, left, blamed, Status::timeout, "not finished after " + seconds);
      return;
    }
    // Nobody to blame, but others of the launch went well: the rest gets another start.
    if (blamed.empty() && attempt.made_progress()) return;
    condemn(attempt, left, blamed, Status::failed, attempt.reason());
  }

  // `only`: the cell to blame; empty: all of the launch, which count as one failure (their start failed, not they).
  void condemn(Attempt& attempt, std::vector<PlannedCell>& left, const std::string& only, Status status,
               const std::string& reason) {
    const std::string counted = number_ > 1 ? "attempt " + std::to_string(number_) + ": " + reason : reason;
    std::erase_if(left, [&](const PlannedCell& cell) {
      if (!only.empty() && cell.cell_id != only) return false;
      write_verdict(options_.paths, attempt.id(), cell, status, counted);
      attempt.note("cell_verdict", cell, std::string(results::name_of(status)) + ": " + counted);
      progress_.cell_ended(cell, status == Status::skipped);
      if (status != Status::skipped) try_again(attempt, cell, reason);
      return true;
    });
    if (status != Status::skipped) streak_.failed(reason);
    if (streak_.is_too_long()) report.stopped = true;
  }

  // The FAILED record stands until the next attempt replaces it: a run that is killed in between has lost nothing.
  void try_again(Attempt& attempt, const PlannedCell& cell, const std::string& reason) {
    if (number_ > options_.retries) return;
    attempt.note("cell_retry", cell,
                 "attempt " + std::to_string(number_) + " of " + std::to_string(options_.retries + 1) + " failed: " + reason);
    again_.push_back(cell);
    progress_.cell_again(cell);
  }

  const RunOptions& options_;
  Progress& progress_;
  FailureStreak streak_;
  TextWatch texts_;
  std::vector<PlannedCell> again_;  ///< failed, with attempts left
  int number_ = 1;                  ///< of the attempt
};

}  // namespace

RunReport run_cells(std::span<const PlannedCell> cells, std::span<const CellState> states,
                    const RunOptions& options) {
  std::vector<PlannedCell> todo = cells_to_run(cells, states, options.choice, options.paths.bin, options.paths.out);
  if (options.hooks.lease) todo = options.hooks.lease(std::move(todo));
  const SignalWatch signals;
  adopt_orphans();
  Progress progress(cells.size() - todo.size(), todo);
  Runner runner(options, progress, TextWatch(cells, states, todo));
  std::vector<Launch> launches = group_into_launches(todo);
  if (options.shuffle) shuffle(launches, *options.shuffle);
  for (const Launch& launch : launches) {
    if (SignalWatch::pending() != 0) runner.report.signal = SignalWatch::pending();
    if (runner.is_over()) break;
    runner.run(launch);
  }
  return runner.report;
}

}  // namespace thinwire::sweep
