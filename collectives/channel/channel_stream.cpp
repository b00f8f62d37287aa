#include "collectives/channel/channel_stream.h"

#include <utility>

#include "core/clock.h"
#include "kernels/codec/capabilities.h"

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

struct ChannelStream::Slots {
  explicit Slots(Device on) : device(on) {}
  ~Slots() {
    for (StatusSlot* block : blocks) device_backend(device.kind).release_staging(block, device.ordinal);
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  Device device;
  std::vector<StatusSlot*> blocks, free;
};

StatusPtr ChannelStream::status_slot() {
  constexpr std::size_t block = 64;
  if (slots_ == nullptr) slots_ = std::make_shared<Slots>(device_);
  if (slots_->free.empty()) {
    auto* made = static_cast<StatusSlot*>(device_backend(device_.kind).allocate_staging(block * sizeof(StatusSlot), device_.ordinal));
    slots_->blocks.push_back(made);
    for (std::size_t i = 0; i < block; ++i) slots_->free.push_back(made + i);
  }
  StatusSlot* slot = slots_->free.back();
  slots_->free.pop_back();
  *slot = StatusSlot();
  return {slot, [slots = slots_](StatusSlot* used) { slots->free.push_back(used); }};
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

void OperationEvents::copy_status(const Codec* codec, int which) {
  const auto* half = codec != nullptr ? codec->as<DeviceHalf>() : nullptr;
  if (half == nullptr) return;
  if (status_ == nullptr) status_ = stream_.status_slot();
  copy_elements(&status_->words[which][0], half->status_words(), 2);
}

std::array<std::uint32_t, 2> OperationEvents::status(int which) const {
  if (status_ == nullptr) return {0, 0};
  const volatile std::uint32_t* words = &status_->words[which][0];  // the device writes them
  return {words[0], words[1]};
}

void OperationEvents::end(TraceCategory what, EventPtr began) {
  moved_ = true;
  spans_.push_back({what, std::move(began), mark()});
}

}  // namespace thinwire
