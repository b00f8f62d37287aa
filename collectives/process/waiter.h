// How a rank waits without taking a core from the others.
#pragma once

#include <cstdint>
#include <limits>

#include "collectives/process/doorbell.h"

namespace thinwire {

/// How a waiting rank spends its time between two polls. THINWIRE_WAIT = spin | nap | auto (default): auto
/// spins when every rank has a core of its own (lowest latency); else it polls and yields for 1 ms and then
/// sleeps in naps of 20 us (plus 25 us of timer), so that waiting ranks leave the core to those that work.
/// nap: at once.
class Waiter {
 public:
  static constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();

  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  /// The wait is over: the rank goes on (RankClock).
  ~Waiter();

  /// Call between two unsuccessful polls.
  void pause();
  /// The same, but always a nap, which ends by `until_ns` (CLOCK_MONOTONIC) at the latest.
  void nap(std::int64_t until_ns = never_ns);

  /// A poll that failed for nothing but the time says when that is: this thread's next nap ends by then.
  static void due(std::int64_t when_ns);

  /// While one of these lives, every wait of the process naps at once (serial measuring: the rank that
  /// computes must have the machine to itself).
  struct Quiet {
    /// `nap_us`: of every nap until no Quiet is left; the longest counts. Longer naps leave more of a core to the others.
    explicit Quiet(int nap_us = 0);
    ~Quiet();
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
  };

  /// While one of these lives, who rings this bell ends a nap of this process. Of several bells the newest counts; what is rung elsewhere waits for the end of a nap.
  class Listening {
   public:
    explicit Listening(Doorbell& bell);
    ~Listening();
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;

   private:
    Doorbell& bell_;
  };

 private:
  std::int64_t started_ns_ = 0;
  Doorbell* bell_ = nullptr;  ///< listened to since before the last poll
  std::uint32_t seen_ = 0;    ///< how often it had rung then
};

}  // namespace thinwire
