// Compute sections of a channel: codec work between transfers, timed as it comes, alone, or replayed as
// waits.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "collectives/process/node_info.h"
#include "collectives/process/rank_clock.h"
#include "collectives/channel/traffic.h"
#include "core/clock.h"
#include "kernels/codec/capabilities.h"

namespace thinwire {

/// Which section of which operation. Tensors of one shape share what is remembered; of another shape with as many elements a message may be otherwise cut.
struct SectionKey {
  int kind = 0;  ///< of the operation
  std::int64_t rows = 0, columns = 0;
  std::int32_t stack = 1;  ///< MessageKey::stack
  int section = 0;         ///< its place in the order of sections
  auto operator<=>(const SectionKey&) const = default;
};

/// What serial passes left behind for replay.
struct SectionMemory {
  std::vector<double> wall_us, cpu_us;  ///< one entry per serial pass
  std::int64_t value = 0;               ///< result of the latest pass (a payload's size)
  Round round;                          ///< spans into the two buffers below
  Buffer send, receive;
};

struct SectionTime {
  double wall_us = 0, cpu_us = 0;
};

/// The compute clock of a channel (docs/measuring.md).
class CodecTimer {
 public:
  ComputeMode mode() const { return mode_; }
  /// Entering `serial` forgets what was remembered before.
  void set_mode(ComputeMode mode);
  /// Replay waits this many times as long as was measured: a processor of another speed.
  void set_scale(double scale) { scale_ = scale; }

  /// Runs `body` (returning a size or nothing) or, in replay, waits for its remembered median duration;
  /// `value` gets what it returned. Throws UsageError when replay has nothing remembered.
  template <typename Body>
  SectionTime run(const SectionKey& key, std::int64_t& value, Body&& body) {
    if (mode_ == ComputeMode::replay) return replay(key, value);
    if (mode_ == ComputeMode::serial) {
      const MachineLock alone;
      const SectionTime time = timed(value, body);
      remember(key, time, value);
      return time;
    }
    return timed(value, body);
  }

  /// Nanoseconds that this process has waited in place of codec work so far, all channels together.
  static std::int64_t replayed_ns() { return replayed_ns_; }

  /// Serial: keeps a copy of a round's send buffer, so that a replay has memory of its own to reduce.
  void remember_round(const SectionKey& key, const Round& round);
  /// Replay: the remembered round, in memory of the channel.
  const Round& remembered_round(const SectionKey& key);

 private:
  template <typename Body>
  static SectionTime timed(std::int64_t& value, Body&& body) {
    RankClock::busy();
    const std::int64_t cpu = process_cpu_ns(), wall = now_ns();
    if constexpr (std::is_void_v<decltype(body())>)
      body();
    else
      value = static_cast<std::int64_t>(body());
    const std::int64_t wall_end = now_ns();
    return {static_cast<double>(wall_end - wall) * 1e-3, static_cast<double>(process_cpu_ns() - cpu) * 1e-3};
  }
  SectionTime replay(const SectionKey& key, std::int64_t& value);
  void remember(const SectionKey& key, const SectionTime& time, std::int64_t value);
  SectionMemory& find(const SectionKey& key);

  static std::int64_t replayed_ns_;
  ComputeMode mode_ = ComputeMode::real;
  double scale_ = 1;
  std::map<SectionKey, SectionMemory> memory_;
};

}  // namespace thinwire
