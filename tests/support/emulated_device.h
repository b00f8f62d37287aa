// Host memory and emulated kernels as a DeviceUnderTest. Include after tests/support/cuda_emulation.h and the `.cu` files.
#pragma once

#include <map>

#include "core/device.h"
#include "support/device_codec_cases.h"

/// One row of the table of entry points.
#define EMULATED(name) {#name, reinterpret_cast<void*>(name)}

namespace thinwire::testing {

class EmulatedDevice : public DeviceUnderTest {
 public:
  explicit EmulatedDevice(const std::map<std::string, void*>& entries) : entries_(entries) {}
  void* find(const std::string& name) override { return entries_.at(name); }
  void* allocate(std::size_t bytes) override {
    memory_.emplace_back(bytes);
    return memory_.back().data();
  }
  void write(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void read(void* to, const void* from, std::size_t bytes) override { write(to, from, bytes); }

 private:
  const std::map<std::string, void*>& entries_;
  std::vector<Buffer> memory_;
};

}  // namespace thinwire::testing
