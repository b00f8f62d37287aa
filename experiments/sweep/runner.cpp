#include "experiments/sweep/runner.h"

#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>

#include "core/clock.h"
#include "core/log.h"
#include "experiments/sweep/progress.h"
#include "results/journal.h"
#include "results/record.h"

namespace thinwire::sweep {

using results::RecordState;
using results::Status;

namespace {

volatile std::sig_atomic_t pending_signal = 0;

// Notes SIGINT and SIGTERM while a run lasts.
class SignalWatch {
 public:
  SignalWatch() {
    pending_signal = 0;
    struct sigaction action {};
    action.sa_handler = [](int s) { pending_signal = s; };
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~SignalWatch() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

// A record is replaced by rename, so a new one has another inode than the one it replaced.
ino_t inode_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

bool is_good(Status status) {
  return status != Status::failed && status != Status::timeout && status != Status::wrong;
}

// One start of a launch's program, watched to its end.
class Attempt {
 public:
  Attempt(const RunOptions& options, const Launch& launch, std::span<const PlannedCell> cells,
          Progress& progress)
      : places_(options.places),
        launch_(launch),
        progress_(progress),
        id_(next_launch_id(options.places)),
        journal_(places_.journal(id_)) {
    for (const PlannedCell& cell : cells) {
      cells_[cell.cell_id] = &cell;
      before_[cell.cell_id] = inode_of(record_of(cell));
    }
    write_launch_file(places_, id_, launch, cells);
  }

  enum class End { ended, hung, interrupted };

  End watch() {
    Process process(command_for(places_, id_, launch_));
    progress_.launch_started(launch_);
    while (!(ending_ = process.poll())) {
      if (read_journal()) news_.restart();
      progress_.tick();
      if (pending_signal != 0 || news_.seconds() > launch_.timeout) {
        const bool interrupted = pending_signal != 0;
        process.terminate(5);
        read_journal();
        return interrupted ? End::interrupted : End::hung;
      }
      sleep_until_ns(now_ns() + 20'000'000);
    }
    process.terminate(0);  // ranks that outlived a killed mpirun
    read_journal();
    return End::ended;
  }

  /// Cells without a new record, in the order of the launch.
  std::vector<PlannedCell> unfinished(std::span<const PlannedCell> cells) {
    std::vector<PlannedCell> left;
    for (const PlannedCell& cell : cells)
      if (!note_if_finished(cell)) left.push_back(cell);
    return left;
  }

  /// The cell to blame: the one whose failure the journal names last, else the last one started.
  std::string blamed() const {
    if (!failed_.empty() && !finished_.contains(failed_)) return failed_;
    for (auto at = started_.rbegin(); at != started_.rend(); ++at)
      if (!finished_.contains(*at)) return *at;
    return "";
  }

  std::string reason() const {
    if (!failure_reason_.empty()) return failure_reason_;
    const std::string how =
        ending_ ? "the launch ended with " + ending_->to_string() : "the launch was ended";
    const std::string said = reason_from_log(places_.log(id_));
    return how + (said.empty() ? "" : ": " + said) + " (" + places_.log(id_) + ")";
  }

  std::string skip_reason() const {
    return ending_ && ending_->signal == 0 && ending_->exit_status == 3
               ? skip_reason_from_log(places_.log(id_))
               : "";
  }
  const std::string& id() const { return id_; }
  bool made_progress() const { return !finished_.empty(); }

 private:
  std::string record_of(const PlannedCell& cell) const {
    return results::record_path(places_.out, cell.cell_id);
  }

  bool note_if_finished(const PlannedCell& cell) {
    if (finished_.contains(cell.cell_id)) return true;
    const std::string path = record_of(cell);
    if (inode_of(path) == before_[cell.cell_id]) return false;
    const results::RecordCheck check = results::check_record(path);
    if (check.state != RecordState::finished) return false;
    finished_.insert(cell.cell_id);
    progress_.cell_ended(cell, is_good(check.status));
    return true;
  }

  bool read_journal() {
    const auto entries = journal_.poll();
    for (const results::JournalEntry& entry : entries) {
      const auto cell = cells_.find(entry.cell_id);
      if (cell == cells_.end()) continue;
      if (entry.event == "cell_started") {
        started_.push_back(entry.cell_id);
        progress_.cell_started(*cell->second);
      } else if (entry.event == "cell_finished") {
        note_if_finished(*cell->second);
      } else if (entry.event == "cell_failed" && !note_if_finished(*cell->second) && failed_.empty()) {
        failed_ = entry.cell_id;  // the first rank to report knows best; the others die of the abort
        failure_reason_ = entry.reason;
      }
    }
    return !entries.empty();
  }

  const Places& places_;
  const Launch& launch_;
  Progress& progress_;
  std::string id_;
  results::JournalReader journal_;
  std::map<std::string, const PlannedCell*> cells_;
  std::map<std::string, ino_t> before_;
  std::vector<std::string> started_;
  std::set<std::string> finished_;
  std::string failed_, failure_reason_;
  std::optional<Ending> ending_;
  Stopwatch news_;
};

class Runner {
 public:
  Runner(const RunOptions& options, Progress& progress) : options_(options), progress_(progress) {}

  RunReport report;

  void run(const Launch& launch) {
    const Stopwatch watch;
    std::vector<PlannedCell> left = launch.cells;
    while (!left.empty() && !is_over()) {
      Attempt attempt(options_, launch, left, progress_);
      const Attempt::End end = attempt.watch();
      const std::size_t before = left.size();
      left = attempt.unfinished(left);
      report.ran += before - left.size();
      if (end == Attempt::End::interrupted)
        report.signal = pending_signal;
      else
        judge(attempt, end, launch, left);
    }
    report.seconds[{launch.program, launch.link}] += watch.seconds();
  }

  bool is_over() const { return report.signal != 0 || report.stopped; }

 private:
  // Gives verdicts to the cells that must not start again and takes them out of `left`. Each attempt either
  // finishes a cell or condemns one, so the loop above ends.
  void judge(Attempt& attempt, Attempt::End end, const Launch& launch, std::vector<PlannedCell>& left) {
    if (left.empty()) return;
    if (const std::string reason = attempt.skip_reason(); !reason.empty())
      return condemn(attempt, left, "", Status::skipped, reason);
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

  void condemn(Attempt& attempt, std::vector<PlannedCell>& left, const std::string& only, Status status,
               const std::string& reason) {
    std::erase_if(left, [&](const PlannedCell& cell) {
      if (!only.empty() && cell.cell_id != only) return false;
      write_verdict(options_.places, attempt.id(), cell, status, reason);
      ++report.ran;
      progress_.cell_ended(cell, is_good(status));
      if (status != Status::skipped) ++failures_;
      return true;
    });
    if (options_.max_failures > 0 && failures_ >= options_.max_failures) report.stopped = true;
  }

  const RunOptions& options_;
  Progress& progress_;
  int failures_ = 0;
};

}  // namespace

RunReport run_cells(std::span<const PlannedCell> cells, std::span<const CellState> states,
                    const RunOptions& options) {
  std::vector<PlannedCell> todo;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (states[i].record == RecordState::damaged)
      log_warning(results::record_path(options.places.out, cells[i].cell_id) + ": " + states[i].reason +
                  "; the cell runs again");
    if (states[i].record != RecordState::finished || options.redo.contains(states[i].status))
      todo.push_back(cells[i]);
  }
  const SignalWatch signals;
  adopt_orphans();
  Progress progress(cells.size() - todo.size(), todo);
  Runner runner(options, progress);
  for (const Launch& launch : group_into_launches(todo)) {
    if (pending_signal != 0) runner.report.signal = pending_signal;
    if (runner.is_over()) break;
    runner.run(launch);
  }
  return runner.report;
}

}  // namespace thinwire::sweep
