// Sections of queued work on a device, timed by events: the host sees their durations once the device has come to their end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/device/placement.h"

namespace thinwire {

class DeviceSections {
 public:
  struct Section {
    const char* name = "";
    int layer = -1, micro = -1;
    double* sums[2] = {nullptr, nullptr};  ///< microseconds that the duration is added to
    std::int64_t begin_ns = 0, end_ns = 0;  ///< CLOCK_MONOTONIC, of the device's work
  };
  DeviceSections() = default;
  ~DeviceSections();
  DeviceSections(const DeviceSections&) = delete;
  DeviceSections& operator=(const DeviceSections&) = delete;

  /// What is queued on the placement's stream between these two is the section.
  void begin(const Section& section);
  void end();
  /// Waits for the stream, then tells when each section since the last call ran, in order. Valid until the next begin().
  const std::vector<Section>& settle();

 private:
  Event& next_event();
  std::vector<Event> events_;  ///< kept for the next step
  std::size_t used_ = 0;
  std::vector<Section> sections_;
  bool settled_ = false;
};

}  // namespace thinwire
