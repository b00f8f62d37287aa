#include "core/clock.h"

#include <sys/prctl.h>

namespace thinwire {

void wake_in_time() {
  // The default timer slack of 50 us would be added to every wait; it is a property of each thread.
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL);
  (void)slack;
}

void sleep_until_ns(std::int64_t deadline_ns) {
  wake_in_time();
  const timespec t{static_cast<time_t>(deadline_ns / 1'000'000'000), static_cast<long>(deadline_ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) != 0) {
  }
}

}  // namespace thinwire
