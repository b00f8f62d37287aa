#include "experiments/run/attempt.h"

#include <sys/stat.h>

#include <csignal>

#include "core/clock.h"
#include "core/error.h"
#include "experiments/run/signal_watch.h"

namespace thinwire::sweep {

using results::RecordState;
using results::Status;

namespace {

/// After its last rank mpirun ends within a second; one that does not waits for ever.
constexpr double most_seconds_without_ranks = 4;

// A record is replaced by rename: by another inode, or, where what a killed runner left behind replaced it in
// between, by one that is used again, changed since. Nanoseconds of the change, and 0 where there is none.
RecordVersion version_of(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return {info.st_ino, info.st_ctim.tv_sec * 1'000'000'000LL + info.st_ctim.tv_nsec};
}

}  // namespace

Attempt::Attempt(const RunPaths& paths, const RunHooks& hooks, const Launch& launch,
                 std::span<const PlannedCell> cells, int number, Progress& progress, FailureStreak& streak, TextWatch& texts)
    : paths_(paths),
      hooks_(hooks),
      launch_(launch),
      number_(number),
      progress_(progress),
      streak_(streak),
      texts_(texts),
      id_(next_launch_id(paths)),
      journal_(paths_.journal(id_)) {
  for (const PlannedCell& cell : cells) {
    cells_[cell.cell_id] = &cell;
    before_[cell.cell_id] = version_of(record_of(cell));
  }
  write_launch_file(paths_, id_, launch, cells);
}

Attempt::End Attempt::watch() {
  Command command = command_for(paths_, id_, launch_);
  command.environment["THINWIRE_ATTEMPT"] = std::to_string(number_);
  Process process(command);
  progress_.launch_started(launch_);
  news_.restart();
  Stopwatch looked, with_ranks;
  while (!(ending_ = process.poll())) {
    if (read_journal()) news_.restart();
    progress_.tick();
    if (SignalWatch::pending() != 0 || (hooks_.keep_alive && !hooks_.keep_alive())) return end_early(process);
    const bool hung = news_.seconds() > launch_.timeout;
    if (hung || streak_.is_too_long()) {
      process.terminate(5);
      read_journal();
      return hung ? End::hung : End::too_many_failures;
    }
    if (looked.seconds() > 1) {
      looked.restart();
      if (!process.has_mpirun_without_ranks()) with_ranks.restart();
      if (with_ranks.seconds() > most_seconds_without_ranks) process.terminate(0);
    }
    sleep_until_ns(now_ns() + 20'000'000);
  }
  process.terminate(0);  // ranks that outlived a killed mpirun
  read_journal();
  return streak_.is_too_long() ? End::too_many_failures : End::ended;
}

Attempt::End Attempt::end_early(Process& process) {
  if (SignalWatch::pending() == SIGUSR1) {
    process.request_stop();
    for (const Stopwatch waited; waited.seconds() < hooks_.stop_grace && SignalWatch::pending() == SIGUSR1 && !process.poll();) {
      if (hooks_.keep_alive && !hooks_.keep_alive()) break;  // what it saves would be another runner's
      sleep_until_ns(now_ns() + 20'000'000);
    }
  }
  process.terminate(5);
  read_journal();
  return End::interrupted;
}

std::vector<PlannedCell> Attempt::unfinished(std::span<const PlannedCell> cells) {
  std::vector<PlannedCell> left;
  for (const PlannedCell& cell : cells)
    if (!note_if_finished(cell)) left.push_back(cell);
  return left;
}

std::string Attempt::blamed() const {
  if (!failed_.empty() && !finished_.contains(failed_)) return failed_;
  for (auto at = started_.rbegin(); at != started_.rend(); ++at)
    if (!finished_.contains(*at)) return *at;
  return "";
}

std::string Attempt::reason() const {
  if (!failure_reason_.empty()) return failure_reason_;
  const std::string how = ending_ ? "the launch ended with " + ending_->to_string() : "the launch was ended";
  const std::string said = reason_from_log(paths_.log(id_));
  return how + (said.empty() ? "" : ": " + said) + " (" + paths_.log(id_) + ")";
}

std::string Attempt::skip_reason() const {
  return ending_ && ending_->signal == 0 && ending_->exit_status == 3 ? skip_reason_from_log(paths_.log(id_))
                                                                      : "";
}

void Attempt::note(const std::string& event, const PlannedCell& cell, const std::string& reason) {
  if (!notes_) notes_.emplace(paths_.journal(id_));
  notes_->append({event, cell.cell_id, reason});
}

bool Attempt::stopped_on_request() const {
  return ending_ && ending_->signal == 0 && ending_->exit_status == static_cast<int>(ExitCode::stopped);
}

bool Attempt::note_if_finished(const PlannedCell& cell) {
  if (finished_.contains(cell.cell_id)) return true;
  const std::string path = record_of(cell);
  if (version_of(path) == before_[cell.cell_id]) return false;
  const results::RecordCheck check = results::check_record(path);
  if (check.state != RecordState::finished) return false;
  finished_.insert(cell.cell_id);
  const bool failed = check.status == Status::failed || check.status == Status::timeout;
  if (failed) failed_records_[cell.cell_id] = check.reason;
  failed ? streak_.failed(check.reason) : streak_.measured();
  texts_.measured(cell, check.text);
  progress_.cell_ended(cell, !failed && check.status != Status::wrong);
  return true;
}

bool Attempt::read_journal() {
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

}  // namespace thinwire::sweep
