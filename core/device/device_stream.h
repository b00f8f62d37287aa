// Owners of a device's streams and events.
#pragma once

#include <utility>

#include "core/device/device.h"

namespace thinwire {

class OwnedStream {
 public:
  explicit OwnedStream(Device device) : stream_(device_backend(device.kind).create_stream(device.ordinal)) {}
  ~OwnedStream() { device_backend(stream_.device.kind).destroy_stream(stream_); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  const Stream& get() const { return stream_; }
  void synchronize() const { device_backend(stream_.device.kind).synchronize(stream_); }

 private:
  Stream stream_;
};

class OwnedEvent {
 public:
  explicit OwnedEvent(Device device) : event_(device_backend(device.kind).create_event(device.ordinal)) {}
  ~OwnedEvent() { device_backend(event_.device.kind).destroy_event(event_); }
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  void record(const Stream& stream) { device_backend(event_.device.kind).record(event_, stream); }
  /// Later work of `stream` starts after the event.
  void hold(const Stream& stream) const { device_backend(event_.device.kind).wait(stream, event_); }
  bool finished() const { return device_backend(event_.device.kind).finished(event_); }
  double ms_until(const OwnedEvent& later) const { return device_backend(event_.device.kind).elapsed_ms(event_, later.event_); }
  const Event& get() const { return event_; }

 private:
  Event event_;
};

}  // namespace thinwire
