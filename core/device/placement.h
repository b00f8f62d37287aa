// Where the calling thread computes: the device that its new tensors and buffers lie on, and the stream that its kernels and copies go to.
// Host unless a PlacementScope says otherwise. A program enters one scope for all it does; the floors below ask, so that one code path
// serves the host and every device.
#pragma once

#include <cstddef>

#include "core/device/device.h"

namespace thinwire {

struct Placement {
  Device device;
  Stream stream;
  bool on_host() const { return device.kind == DeviceKind::host; }
};

/// Of the calling thread.
const Placement& placement();

/// Changes the calling thread's placement until the end of the scope.
class PlacementScope {
 public:
  explicit PlacementScope(const Placement& where);
  /// A device's placement with its default stream, or the host's.
  explicit PlacementScope(Device device) : PlacementScope(Placement{device, {device, nullptr}}) {}
  ~PlacementScope();
  PlacementScope(const PlacementScope&) = delete;
  PlacementScope& operator=(const PlacementScope&) = delete;

 private:
  Placement before_;
};

// Copies and fills in the order of the placement's stream. On the host they are done on return; on a device they are queued. Addresses may
// lie on the host or on the placement's device (the driver tells them apart); host memory must stay valid until the stream has come there.
void copy_bytes(void* to, const void* from, std::size_t bytes);
void fill_zero_bytes(void* to, std::size_t bytes);
template <typename T>
void copy_elements(T* to, const T* from, std::size_t count) {
  copy_bytes(to, from, count * sizeof(T));
}

/// Waits until everything queued on the placement's stream is done. Nothing to wait for on the host.
void synchronize_placement();

/// copy_bytes and wait: for single numbers and checkpoints, not for a steady state.
void copy_and_wait(void* to, const void* from, std::size_t bytes);

}  // namespace thinwire
