// What one rank rings to wake another of the same machine.
#pragma once

#include <atomic>
#include <cstdint>

namespace thinwire {

/// Lies in memory that both map, cleared to zero. Who rings has done before what the other is woken for; who waits
/// reads `rings()` before it looks, so that what was rung in between ends the wait at once.
class Doorbell {
 public:
  std::uint32_t rings() const { return rings_.load(); }
  void ring();
  /// Sleeps until it has been rung more than `seen` times, or until `until_ns` (CLOCK_MONOTONIC). A signal may end it sooner.
  void wait(std::uint32_t seen, std::int64_t until_ns);

 private:
  std::atomic<std::uint32_t> rings_ = 0, sleepers_ = 0;
};

}  // namespace thinwire
