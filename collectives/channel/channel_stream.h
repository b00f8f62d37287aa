// What a channel on a device adds to one on the host: a stream of its own, its order with the streams of its callers, and times by
// events, which nobody waits for. Internal to this floor.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/device/device_stream.h"
#include "core/device/placement.h"
#include "core/process/trace.h"
#include "kernels/codec/codec.h"

namespace thinwire {

using EventPtr = std::shared_ptr<OwnedEvent>;

/// Page-locked words for what codecs found in one operation's tensors and payloads (Codec::status_words): of the channel's own codec, and of
/// the one whose activation a gradient belongs to.
struct StatusSlot {
  std::uint32_t words[2][2] = {};
};
using StatusPtr = std::shared_ptr<StatusSlot>;

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
  void lead_caller() { lead(placement().stream); }
  /// `other` goes on after what the channel has queued so far.
  void lead(const Stream& other) { mark()->hold(other); }
  /// All zero; its memory serves others when it is dropped, which must not be before the stream has done what writes to it.
  StatusPtr status_slot();
  void synchronize() const { stream_.synchronize(); }
  /// CLOCK_MONOTONIC at which an event that is finished took place; within about 10 us.
  std::int64_t time_of(const OwnedEvent& event);

 private:
  Device device_;
  OwnedStream stream_;
  std::shared_ptr<std::vector<std::unique_ptr<OwnedEvent>>> events_;  ///< not in use; outlived by those in use
  struct Slots;
  std::shared_ptr<Slots> slots_;
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
  /// The operation's last word, behind all that was queued for it.
  void finish() {
    moved_ = true;
    last_ = mark();
  }
  /// Queues a copy of what this codec has found so far; nothing for codecs of the host. `which`: 0 own, 1 the activation's.
  void copy_status(const Codec* codec, int which);
  /// What the copies that the stream has done say.
  std::array<std::uint32_t, 2> status(int which) const;
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
  StatusPtr status_;
};

}  // namespace thinwire
