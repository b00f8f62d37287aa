// The CUDA module: one shared library, opened at run time when a device is first asked for.
#pragma once

#include <memory>
#include <string>
#include <typeinfo>

#include "core/device/device.h"
#include "core/device/device_abi.h"

namespace thinwire {

class DeviceModule {
 public:
  /// Opens libthinwire_cuda.so (THINWIRE_CUDA_MODULE, beside the program, or the loader's path).
  DeviceModule();
  ~DeviceModule();
  DeviceBackend& backend() { return *backend_; }
  std::string device_name(int ordinal) const;
  /// Equal for two processes of one machine that use the same device, whatever number it has for each.
  std::string device_identity(int ordinal) const;
  /// EnvironmentError when the module has no such function of that type.
  void* entry(const char* name, const std::type_info& type) const;
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(entry(name, typeid(Function)));
  }
  /// How many the module sees; at least 1.
  int devices() const { return devices_; }
  /// Empty when the module opens and sees a device; else why not, in words.
  static std::string why_unavailable();

 private:
  thinwire_cuda_find_fn* find_ = nullptr;
  std::string path_;
  int devices_ = 0;
  std::unique_ptr<DeviceBackend> backend_;
};

/// Name of the device on which this process has memory or had it, for records; empty where it stayed on the host. Opens nothing.
std::string device_in_use();

/// The one module of the process; EnvironmentError with the reason when it cannot be had.
DeviceModule& device_module();

}  // namespace thinwire
