#include "models/compute/device_sections.h"

#include "core/clock.h"
#include "core/error.h"

namespace thinwire {

DeviceSections::~DeviceSections() {
  for (Event& event : events_) device_backend(event.device.kind).destroy_event(event);
}

Event& DeviceSections::next_event() {
  const Placement& here = placement();
  if (used_ == events_.size()) events_.push_back(device_backend(here.device.kind).create_event(here.device.ordinal));
  return events_[used_++];
}

void DeviceSections::begin(const Section& section) {
  if (settled_) {
    sections_.clear();
    used_ = 0;
    settled_ = false;
  }
  TW_ASSERT(used_ == 2 * sections_.size(), "a section inside of another");
  sections_.push_back(section);
  device_backend(placement().device.kind).record(next_event(), placement().stream);
}

void DeviceSections::end() { device_backend(placement().device.kind).record(next_event(), placement().stream); }

// The device's clock is tied to the host's by one more event, at whose end the host looks at its own.
const std::vector<DeviceSections::Section>& DeviceSections::settle() {
  if (settled_) sections_.clear();
  settled_ = true;
  if (sections_.empty()) return sections_;
  DeviceBackend& backend = device_backend(placement().device.kind);
  Event& last = next_event();
  synchronize_placement();
  backend.record(last, placement().stream);
  synchronize_placement();
  const std::int64_t now = now_ns();
  const auto host_time = [&](const Event& event) { return now - static_cast<std::int64_t>(1e6 * backend.elapsed_ms(event, last)); };
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    Section& s = sections_[i];
    s.begin_ns = host_time(events_[2 * i]);
    s.end_ns = s.begin_ns + static_cast<std::int64_t>(1e6 * backend.elapsed_ms(events_[2 * i], events_[2 * i + 1]));
    for (double* sum : s.sums)
      if (sum) *sum += static_cast<double>(s.end_ns - s.begin_ns) * 1e-3;
  }
  return sections_;
}

}  // namespace thinwire
