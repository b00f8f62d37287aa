// Clocks. CLOCK_MONOTONIC is common to all ranks of one machine; MPI_Wtime starts per process and is not used.
#pragma once

#include <ctime>
#include <cstdint>

namespace thinwire {

inline std::int64_t nanoseconds_of(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}
/// Wall time since an arbitrary point, equal for all processes of the machine.
inline std::int64_t now_ns() { return nanoseconds_of(CLOCK_MONOTONIC); }
/// CPU time of the calling thread / of all threads of the process.
inline std::int64_t thread_cpu_ns() { return nanoseconds_of(CLOCK_THREAD_CPUTIME_ID); }
inline std::int64_t process_cpu_ns() { return nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID); }

/// From the first call on, the kernel ends this thread's sleeps in time (slack of 1 ns in place of 50 us).
void wake_in_time();
/// Sleeps until now_ns() reaches `deadline_ns` without burning the core, woken in time.
void sleep_until_ns(std::int64_t deadline_ns);

/// Seconds since construction, on the monotonic clock.
class Stopwatch {
 public:
  std::int64_t elapsed_ns() const { return now_ns() - start_; }
  double seconds() const { return static_cast<double>(elapsed_ns()) * 1e-9; }
  void restart() { start_ = now_ns(); }

 private:
  std::int64_t start_ = now_ns();
};

}  // namespace thinwire
