#include "collectives/process/rank_clock.h"

#include <algorithm>

#include "core/clock.h"

namespace thinwire {
namespace {

/// Of this thread: how far it is behind the machine's clock, and while it waits, where it was when the wait began.
struct State {
  std::int64_t late_ns = 0, since_ns = 0;
  bool waits = false;
};
thread_local State state;

void go_on_at(std::int64_t when_ns) {
  state.late_ns = std::max<std::int64_t>(0, now_ns() - when_ns);
  state.waits = false;
}

}  // namespace

std::int64_t RankClock::now_ns() {
  return thinwire::now_ns() - state.late_ns;
}

void RankClock::idle() {
  if (state.waits) return;
  state = {.late_ns = 0, .since_ns = now_ns(), .waits = true};
}

void RankClock::happened(std::int64_t when_ns) {
  go_on_at(std::max(when_ns, state.waits ? state.since_ns : now_ns()));
}

void RankClock::busy() {
  state.waits = false;
}

void RankClock::sleep_until_ns(std::int64_t deadline_ns) {
  thinwire::sleep_until_ns(deadline_ns);
  go_on_at(deadline_ns);
}

void RankClock::synchronise() {
  state = {};
}

}  // namespace thinwire
