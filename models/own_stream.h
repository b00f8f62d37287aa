// Where a rank computes: its device, and a stream of its own on it.
#pragma once

#include <utility>

#include "core/placement.h"

namespace thinwire {

/// The host; or of the devices that this process sees the one with the rank's number on its machine, modulo their number: several ranks may share one.
/// EnvironmentError with the reason where there is none.
Device device_of_rank(DeviceKind kind);

/// A placement whose stream nobody else uses. On the host the host's.
class OwnStream {
 public:
  explicit OwnStream(Device device) : placement_{device, device_backend(device.kind).create_stream(device.ordinal)} {}
  ~OwnStream() {
    if (placement_.stream.handle != nullptr) device_backend(placement_.device.kind).destroy_stream(placement_.stream);
  }
  OwnStream(OwnStream&& other) noexcept : placement_(std::exchange(other.placement_, {})) {}
  OwnStream& operator=(OwnStream&& other) noexcept {
    std::swap(placement_, other.placement_);
    return *this;
  }
  const Placement& placement() const { return placement_; }

 private:
  Placement placement_;
};

}  // namespace thinwire
