#include "collectives/process/waiter.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/process/node_info.h"
#include "collectives/process/rank_clock.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/process/environment.h"

namespace thinwire {
namespace {

std::atomic<int> quiet_count = 0, longer_nap_us = 0;
thread_local std::int64_t due_ns = Waiter::never_ns;

std::mutex bells_lock;
std::vector<Doorbell*> bells;
std::atomic<Doorbell*> newest_bell = nullptr;

// Polling with a yield in between costs others little and covers the steps of a collective over shared
// memory; longer waits are for a slow link or for a rank that computes, and a nap then costs little in
// proportion. (Measured at 4 ranks on 2 cores: napping after 50 us doubled an all-reduce of 256 KiB.)
constexpr std::int64_t spin_before_nap_ns = 1'000'000;
constexpr std::int64_t nap_ns = 20'000;

bool nap_when_waiting() {
  static const bool nap = [] {
    const std::string wait = Environment::get("THINWIRE_WAIT").value_or("auto");
    if (wait == "spin") return false;
    if (wait == "nap") return true;
    if (wait == "auto") return NodeInfo::oversubscription() > 1;
    throw UsageError("THINWIRE_WAIT=" + wait + " is none of spin, nap, auto");
  }();
  return nap;
}

}  // namespace

Waiter::Quiet::Quiet(int nap_us) {
  longer_nap_us = std::max(longer_nap_us.load(), nap_us);
  ++quiet_count;
}
Waiter::Quiet::~Quiet() {
  if (--quiet_count == 0) longer_nap_us = 0;
}

Waiter::Listening::Listening(Doorbell& bell) : bell_(bell) {
  const std::lock_guard hold(bells_lock);
  bells.push_back(&bell);
  newest_bell = &bell;
}
Waiter::Listening::~Listening() {
  const std::lock_guard hold(bells_lock);
  std::erase(bells, &bell_);
  newest_bell = bells.empty() ? nullptr : bells.back();
}

void Waiter::due(std::int64_t when_ns) {
  due_ns = std::min(due_ns, when_ns);
}

Waiter::~Waiter() {
  RankClock::busy();
}

void Waiter::pause() {
  RankClock::idle();
  if (quiet_count.load(std::memory_order_relaxed) == 0) {
    if (!nap_when_waiting()) return;
    const std::int64_t now = now_ns();
    if (started_ns_ == 0) started_ns_ = now;
    if (now - started_ns_ < spin_before_nap_ns) {
      sched_yield();
      return;
    }
  }
  nap();
}

void Waiter::nap(std::int64_t until_ns) {
  RankClock::idle();
  const std::int64_t length = std::max(nap_ns, 1000 * std::int64_t{longer_nap_us.load(std::memory_order_relaxed)});
  const std::int64_t end = std::min({now_ns() + length, until_ns, std::exchange(due_ns, never_ns)});
  Doorbell* const bell = newest_bell.load();
  if (bell == nullptr) {
    sleep_until_ns(end);
    return;
  }
  // What was rung during the poll that has just failed may have been missed by it: poll once more, listening.
  if (std::exchange(bell_, bell) == bell) bell->wait(seen_, end);
  seen_ = bell->rings();
}

}  // namespace thinwire
