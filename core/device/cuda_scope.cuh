// For `.cu` files: make a device current for one call, and give back what was current.
#pragma once

#include <cuda_runtime.h>

#include "core/device/module_entry.h"

namespace thinwire::cuda {

class DeviceScope {
 public:
  explicit DeviceScope(int ordinal) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess && before_ != ordinal) {
      error_ = cudaSetDevice(ordinal);
      changed_ = error_ == cudaSuccess;
    }
  }
  ~DeviceScope() {
    if (changed_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

/// Runs `call` with device `ordinal` current; the first error as the entry points return it.
template <typename Call>
int on_device(int ordinal, const Call& call) {
  const DeviceScope scope(ordinal);
  return static_cast<int>(scope.error() != cudaSuccess ? scope.error() : call());
}

}  // namespace thinwire::cuda
