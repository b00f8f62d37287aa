#include "collectives/process/watchdog.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/process/environment.h"
#include "core/process/main_guard.h"

namespace thinwire {
namespace {

// Leaked: guards may outlive static destruction.
struct State {
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<Watchdog::Guard*> guards;
  std::thread thread;
  bool stopping = false;
  int rank = 0;
};
State& state() {
  static State* instance = new State;
  return *instance;
}

}  // namespace

double Watchdog::limit_seconds() {
  const std::string text = Environment::get("THINWIRE_WATCHDOG").value_or("120");
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != 0 || !(seconds >= 0)) {
    throw UsageError("THINWIRE_WATCHDOG=" + text +
                     " is not a number of seconds (0 switches the watchdog off)");
  }
  return seconds;
}

void Watchdog::start(int rank) {
  const double limit = limit_seconds();
  State& s = state();
  if (limit == 0 || s.thread.joinable()) return;
  s.rank = rank;
  s.stopping = false;
  s.thread = std::thread([&s, limit, last = now_ns()]() mutable {
    const auto period = std::chrono::duration<double>(std::clamp(limit / 8, 0.02, 1.0));
    std::unique_lock lock(s.mutex);
    while (!s.wake.wait_for(lock, period, [&s] { return s.stopping; })) {
      // A whole process that was stopped (scontrol suspend, SIGSTOP, a debugger) could make no progress: what this thread slept too long does not count.
      const std::int64_t now = now_ns(), overslept = now - last - std::chrono::duration_cast<std::chrono::nanoseconds>(period).count();
      last = now;
      if (overslept > 2'000'000'000)
        for (Guard* guard : s.guards) guard->since_ns_ = std::min(now, guard->since_ns_ + overslept);
      if (s.guards.empty()) continue;
      const Guard& inner = *s.guards.back();
      if (static_cast<double>(now_ns() - inner.since_ns_) * 1e-9 < limit) continue;
      std::string waited_for;
      for (auto guard = s.guards.rbegin(); guard != s.guards.rend(); ++guard) {
        waited_for += (waited_for.empty() ? "" : ", within ") + (*guard)->describe_((*guard)->context_);
      }
      lock.unlock();
      fail_process(static_cast<int>(ExitCode::timeout),
                   "rank " + std::to_string(s.rank) + " waited more than " +
                       std::to_string(static_cast<long>(limit)) + " s without progress in " + waited_for +
                       ": another rank is lost, slower than that, or calls operations in another order. "
                       "THINWIRE_WATCHDOG=SECONDS allows more time");
    }
  });
}

void Watchdog::stop() {
  State& s = state();
  if (!s.thread.joinable()) return;
  {
    const std::lock_guard lock(s.mutex);
    s.stopping = true;
  }
  s.wake.notify_all();
  s.thread.join();
}

Watchdog::Guard::Guard(Describe describe, const void* context)
    : describe_(describe), context_(context), since_ns_(now_ns()) {
  const std::lock_guard lock(state().mutex);
  state().guards.push_back(this);
}

Watchdog::Guard::~Guard() {
  const std::lock_guard lock(state().mutex);
  std::erase(state().guards, this);
}

void Watchdog::Guard::touch() {
  const std::lock_guard lock(state().mutex);
  since_ns_ = now_ns();
}

}  // namespace thinwire
