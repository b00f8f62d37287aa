#include "experiments/run/side_by_side.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/process/log.h"
#include "experiments/run/leases.h"
#include "experiments/run/signal_watch.h"

namespace thinwire::sweep {
namespace {

/// Ways a worker ends beside 0 and a signal.
constexpr int ended_by_request = 3, ended_by_failures = 4, ended_by_error = 5;

/// Which cells a worker has begun, in memory that all of them share. A lease alone would not do: it ends with its worker, and a cell that failed would
/// be run again by the next one that comes to it.
class Begun {
 public:
  explicit Begun(std::size_t cells) : size_(std::max<std::size_t>(cells, 1) * sizeof(std::atomic<bool>)) {
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw EnvironmentError(std::string("cannot share memory with workers: ") + std::strerror(errno));
    flags_ = new (memory_) std::atomic<bool>[cells]();
  }
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;
  ~Begun() { munmap(memory_, size_); }

  /// Whether the caller is the first.
  bool begin(std::size_t cell) { return !flags_[cell].exchange(true); }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free, "another process must see it");
  std::size_t size_;
  void* memory_ = nullptr;
  std::atomic<bool>* flags_ = nullptr;
};

/// The next cells, one by one, until none is free.
int work(std::span<const PlannedCell> cells, Begun& begun, RunOptions options, int number) {
  CellLeases leases(options.paths.out, "worker-" + std::to_string(getpid()), "worker " + std::to_string(number) + ", process " + std::to_string(getpid()));
  options.hooks.keep_alive = [&leases] { return leases.renew(); };
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const PlannedCell& cell = cells[i];
    if (SignalWatch::pending() != 0) return 128 + SignalWatch::pending();
    if (!begun.begin(i)) continue;  // another worker's, now or before
    const std::vector<std::string> id = {cell.cell_id};
    if (!leases.take(id).empty()) continue;  // of another runner in this folder
    const std::span<const PlannedCell> one(&cell, 1);
    const RunReport report = run_cells(one, states_of(one, options.paths.out), options);
    if (report.signal != 0) return 128 + report.signal;
    if (report.asked_to_stop) return ended_by_request;
    if (report.stopped) return ended_by_failures;
  }
  return 0;
}

pid_t start_worker(std::span<const PlannedCell> cells, Begun& begun, const RunOptions& options, int number) {
  std::fflush(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw EnvironmentError(std::string("cannot start a worker: ") + std::strerror(errno));
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // a runner that is killed takes its workers with it, and they their launches
  if (getppid() != parent) _exit(128 + SIGTERM);
  int status = ended_by_error;
  try {
    status = work(cells, begun, options, number);
  } catch (const std::exception& error) {
    log_error("worker " + std::to_string(number) + ": " + error.what());
  }
  std::fflush(nullptr);
  _exit(status);
}

void take_over(RunReport& report, int status) {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (code > 128) report.signal = code - 128;
  if (code == ended_by_request) report.asked_to_stop = true;
  if (code == ended_by_failures) report.stopped = true;
  if (code == ended_by_error) throw RuntimeFailure("a worker could not go on; its message is above");
}

}  // namespace

RunReport run_side_by_side(std::span<const PlannedCell> cells, const RunOptions& options, int workers) {
  RunReport report;
  std::set<pid_t> running;
  const int count = std::min<int>(workers, static_cast<int>(cells.size()));
  Begun begun(cells.size());
  const SignalWatch signals;  // workers begin with it: a signal between two of their cells is noted
  for (int i = 0; i < count; ++i) running.insert(start_worker(cells, begun, options, i + 1));
  int passed_on = 0;
  Stopwatch since;
  while (!running.empty()) {
    // Again and again: run_cells forgets what was noted before it began.
    if (const int signal = SignalWatch::pending(); signal != 0 && (signal != passed_on || since.seconds() > 1)) {
      for (const pid_t worker : running) kill(worker, signal);
      passed_on = signal;
      since = Stopwatch();
    }
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (running.erase(ended) > 0) {
      try {
        take_over(report, status);
      } catch (const RuntimeFailure&) {
        for (const pid_t worker : running) kill(worker, SIGTERM);
        while (waitpid(-1, nullptr, 0) > 0) {
        }
        throw;
      }
    } else {
      sleep_until_ns(now_ns() + 20'000'000);
    }
  }
  if (passed_on != 0) report.signal = passed_on;
  return report;
}

}  // namespace thinwire::sweep
