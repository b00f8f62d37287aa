// Calling the device module's entry points where the thread computes.
#pragma once

#include <atomic>

#include "core/device/placement.h"

namespace thinwire {

/// What an entry point returned: nothing for 0; RuntimeFailure naming the entry point and the device's reason; ends the process where
/// the error has spoiled the device's context.
void check_device_call(int code, const char* entry_point);

/// One entry point by name, looked up on its first call: a function-local static of whoever calls it. The call gets the placement's
/// ordinal and stream as its last arguments, as every entry point that queues work takes them.
template <typename Function>
class DeviceEntry {
 public:
  constexpr explicit DeviceEntry(const char* name) : name_(name) {}
  template <typename... Arguments>
  void operator()(Arguments... arguments) const {
    const Placement& here = placement();
    check_device_call(function()(arguments..., here.device.ordinal, here.stream.handle), name_);
  }

  const char* name() const { return name_; }

 private:
  Function* function() const {
    Function* f = function_.load(std::memory_order_relaxed);
    if (f == nullptr) {
      f = device_function<Function>(name_);
      function_.store(f, std::memory_order_relaxed);
    }
    return f;
  }
  const char* name_;
  mutable std::atomic<Function*> function_{nullptr};
};

}  // namespace thinwire
