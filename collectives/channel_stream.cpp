#include "collectives/channel_stream.h"

#include <utility>

#include "core/clock.h"

namespace thinwire {

EventPtr ChannelStream::mark(const Stream& on) {
  std::unique_ptr<OwnedEvent> event;
  if (events_->empty()) {
    event = std::make_unique<OwnedEvent>(device_);
  } else {
    event = std::move(events_->back());
    events_->pop_back();
  }
  event->record(on);
  return {event.release(), [pool = events_](OwnedEvent* used) { pool->emplace_back(used); }};
}

// The two clocks drift apart by some microseconds per second, so their difference is taken anew for events of another time.
std::int64_t ChannelStream::time_of(const OwnedEvent& event) {
  constexpr std::int64_t valid_ns = 100'000'000;
  if (clock_ == nullptr || now_ns() - tick_ns_ > valid_ns) {
    if (clock_ == nullptr) {
      clock_ = std::make_unique<OwnedStream>(device_);
      tick_ = std::make_unique<OwnedEvent>(device_);
    }
    const std::int64_t before = now_ns();
    tick_->record(clock_->get());
    clock_->synchronize();
    tick_ns_ = before + (now_ns() - before) / 2;
  }
  return tick_ns_ + static_cast<std::int64_t>(tick_->ms_until(event) * 1e6);
}

void OperationEvents::begin() {
  ready_->hold(stream_.where().stream);
  ready_.reset();
  first_ = mark();
}

EventPtr OperationEvents::mark() {
  if (std::exchange(moved_, false)) latest_ = stream_.mark();
  return latest_;
}

void OperationEvents::end(TraceCategory what, EventPtr began) {
  moved_ = true;
  spans_.push_back({what, std::move(began), mark()});
}

}  // namespace thinwire
