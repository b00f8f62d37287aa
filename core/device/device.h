// Where memory lives and work runs: `host`, or `cuda` through a module opened at run time.
// Device is a property of a tensor, never a preprocessor branch in the code above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <typeinfo>

namespace thinwire {

enum class DeviceKind { host, cuda };

struct Device {
  DeviceKind kind = DeviceKind::host;
  int ordinal = 0;
  bool operator==(const Device&) const = default;
};

/// "host" or "cuda:0".
std::string name_of(Device device);

/// An ordered queue of work on a device. The host's stream is synchronous: its handle is null.
struct Stream {
  Device device;
  void* handle = nullptr;
};

/// A point in a stream's work. On the host work is done when the call returns: the event is its time.
struct Event {
  Device device;
  void* handle = nullptr;
  std::int64_t host_ns = 0;
};

/// What a kind of device can do with memory, streams and events. Host: aligned allocation and memcpy.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  virtual void* allocate(std::size_t bytes, int ordinal) = 0;
  virtual void release(void* pointer, int ordinal) noexcept = 0;
  /// Copies between any two of {host, this device}; asynchronous on devices.
  virtual void copy(void* to, const void* from, std::size_t bytes, const Stream& stream) = 0;
  /// Writes zeros; asynchronous on devices.
  virtual void fill_zero(void* to, std::size_t bytes, const Stream& stream) = 0;
  /// Host memory that this device copies from and to at full speed and asynchronously (page-locked); the host: as allocate.
  virtual void* allocate_staging(std::size_t bytes, int ordinal) = 0;
  virtual void release_staging(void* pointer, int ordinal) noexcept = 0;
  virtual Stream create_stream(int ordinal) = 0;
  virtual void destroy_stream(Stream& stream) noexcept = 0;
  virtual void synchronize(const Stream& stream) = 0;
  virtual Event create_event(int ordinal) = 0;
  virtual void destroy_event(Event& event) noexcept = 0;
  /// Marks what `stream` holds by now.
  virtual void record(Event& event, const Stream& stream) = 0;
  /// Later work of `stream` starts after `event`, without stopping the host.
  virtual void wait(const Stream& stream, const Event& event) = 0;
  /// Whether everything before the event is done (polled by progress(), never blocks).
  virtual bool finished(const Event& event) = 0;
  /// Milliseconds from one recorded, finished event to another, on the device's clock.
  virtual double elapsed_ms(const Event& from, const Event& to) = 0;
};

/// The backend of a kind. For cuda the module is opened on first use; EnvironmentError with the reason and
/// advice when there is no module, driver or device.
DeviceBackend& device_backend(DeviceKind kind);

/// Empty when a device of this kind can be used now, else the reason in words (for SKIPPED rows and tests).
std::string why_unavailable(DeviceKind kind);

/// What it is, for records: "host", "NVIDIA H200, sm_90, 139 GiB", or "emulated on the host (no GPU)". Errors as device_backend.
std::string device_name(Device device);

/// Entry point `name` of the device module. EnvironmentError when the module has none, or one of another type than the caller's: it was built
/// from other sources.
void* device_module_entry(const char* name, const std::type_info& type);
template <typename Function>
Function* device_function(const char* name) {
  return reinterpret_cast<Function*>(device_module_entry(name, typeid(Function)));
}

/// Of the calling thread's placement (core/device/placement.h): the host unless a scope says otherwise.
Device current_device();

/// Owning memory on a device, 64-byte aligned, growing only: a steady state allocates nothing. Where the thread computes unless said
/// otherwise.
class Buffer {
 public:
  explicit Buffer(Device device = current_device()) : device_(device) {}
  Buffer(std::size_t bytes, Device device = current_device()) : device_(device) { reserve(bytes); }
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  /// At least `bytes` usable bytes; contents are lost when it grows.
  void reserve(std::size_t bytes);
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t capacity() const { return capacity_; }
  Device device() const { return device_; }
  template <typename T>
  T* as(std::size_t elements) {
    reserve(elements * sizeof(T));
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  Device device_;
};

}  // namespace thinwire
