// A stream's work recorded once and launched again as a whole: one launch where there were hundreds.
#pragma once

#include <utility>

#include "core/placement.h"

namespace thinwire {

class DeviceGraph {
 public:
  /// Records what `body` queues where the thread computes (a device), without running it. Addresses and numbers that it passes are those of
  /// every launch. RuntimeFailure when it waits, allocates device memory or uses events.
  template <typename Body>
  explicit DeviceGraph(Body&& body) : device_(current_device()) {
    begin();
    try {
      body();
    } catch (...) {
      abandon();
      throw;
    }
    end();
  }
  ~DeviceGraph();
  DeviceGraph(DeviceGraph&& other) noexcept : device_(other.device_), graph_(std::exchange(other.graph_, nullptr)) {}
  DeviceGraph& operator=(DeviceGraph&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(graph_, other.graph_);
    return *this;
  }

  /// Queues all of it on the placement's stream. The graph must outlive the work.
  void launch() const;

 private:
  void begin();
  void end();
  void abandon() noexcept;
  Device device_;
  void* graph_ = nullptr;
};

}  // namespace thinwire
