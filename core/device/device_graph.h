// A stream's work recorded once and launched again as a whole: one launch where there were hundreds.
#pragma once

#include <cstdint>
#include <utility>

#include "core/device/placement.h"

namespace thinwire {

/// How often memory of devices, and page-locked memory, was released by this process so far. The addresses that a graph holds mean what they meant
/// as long as this number is the same.
std::uint64_t device_releases();
/// For memory that was not released through DeviceBackend.
void note_device_release();

class DeviceGraph {
 public:
  /// Records what `body` queues where the thread computes (a device), without running it. Addresses and numbers that it passes are those of
  /// every launch; device_releases() tells whether the addresses still hold. RuntimeFailure when it waits, allocates or releases memory, uses
  /// events, or copies from or to pageable memory of the host.
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
