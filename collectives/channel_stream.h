// What a channel on a device adds to one on the host: a stream of its own, its order with the streams of its callers, and times by
// events, which nobody waits for. Internal to this floor.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/device_stream.h"
#include "core/placement.h"
#include "core/trace.h"

namespace thinwire {

using EventPtr = std::shared_ptr<OwnedEvent>;

class ChannelStream {
 public:
  explicit ChannelStream(Device device) : device_(device), stream_(device), events_(std::make_shared<std::vector<std::unique_ptr<OwnedEvent>>>()) {}

  Placement where() const { return {device_, stream_.get()}; }
  Device device() const { return device_; }
  /// An event behind what `on` (or the channel's stream) holds by now; its memory serves others when it is dropped.
  EventPtr mark(const Stream& on);
  EventPtr mark() { return mark(stream_.get()); }
  /// The channel goes on after what the caller has queued so far; and the other way round.
  void follow_caller() { mark(placement().stream)->hold(stream_.get()); }
  void lead_caller() { mark()->hold(placement().stream); }
  void synchronize() const { stream_.synchronize(); }
  /// CLOCK_MONOTONIC at which an event that is finished took place; within about 10 us.
  std::int64_t time_of(const OwnedEvent& event);

 private:
  Device device_;
  OwnedStream stream_;
  std::shared_ptr<std::vector<std::unique_ptr<OwnedEvent>>> events_;  ///< not in use; outlived by those in use
  // The device's clock against the host's, read on a stream that is always idle.
  std::unique_ptr<OwnedStream> clock_;
  std::unique_ptr<OwnedEvent> tick_;
  std::int64_t tick_ns_ = 0;
};

/// The events of one operation: when it was called, began and ended, and what it did between.
class OperationEvents {
 public:
  /// `ready`: on the caller's stream.
  OperationEvents(ChannelStream& stream, EventPtr ready) : stream_(stream), ready_(std::move(ready)) {}
  /// What the caller had queued comes first.
  void begin();
  /// Marks where a section or transfer begins; end() closes it. Where nothing was queued since the last mark it is the same event.
  EventPtr mark();
  void end(TraceCategory what, EventPtr began);
  void finish() { last_ = mark(); }
  /// Others may have queued work since.
  void resumed() { moved_ = true; }

  struct Span {
    TraceCategory what;
    EventPtr begin, end;
  };
  const std::vector<Span>& spans() const { return spans_; }
  const OwnedEvent& first() const { return *first_; }
  const OwnedEvent& last() const { return *last_; }
  bool finished() const { return last_ != nullptr; }

 private:
  ChannelStream& stream_;
  EventPtr ready_, first_, last_, latest_;
  bool moved_ = true;
  std::vector<Span> spans_;
};

}  // namespace thinwire
