#include "core/device/device.h"

#include <atomic>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "core/clock.h"
#include "core/device/device_module.h"
#include "core/error.h"
#include "core/memory_counter.h"

namespace thinwire {
namespace {

class HostBackend final : public DeviceBackend {
 public:
  void* allocate(std::size_t bytes, int) override {
    void* p = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (p == nullptr) throw RuntimeFailure("out of memory: " + std::to_string(bytes) + " bytes on the host; use a smaller shape");
    return p;
  }
  void release(void* pointer, int) noexcept override { std::free(pointer); }
  void copy(void* to, const void* from, std::size_t bytes, const Stream&) override { std::memcpy(to, from, bytes); }
  void fill_zero(void* to, std::size_t bytes, const Stream&) override { std::memset(to, 0, bytes); }
  void* allocate_staging(std::size_t bytes, int ordinal) override { return allocate(bytes, ordinal); }
  void release_staging(void* pointer, int ordinal) noexcept override { release(pointer, ordinal); }
  Stream create_stream(int ordinal) override { return {{DeviceKind::host, ordinal}, nullptr}; }
  void destroy_stream(Stream&) noexcept override {}
  void synchronize(const Stream&) override {}
  Event create_event(int ordinal) override { return {{DeviceKind::host, ordinal}, nullptr, 0}; }
  void destroy_event(Event&) noexcept override {}
  void record(Event& event, const Stream&) override { event.host_ns = now_ns(); }
  void wait(const Stream&, const Event&) override {}
  bool finished(const Event&) override { return true; }
  double elapsed_ms(const Event& from, const Event& to) override {
    return static_cast<double>(to.host_ns - from.host_ns) * 1e-6;
  }
};

}  // namespace

std::string name_of(Device device) { return device.kind == DeviceKind::host ? "host" : "cuda:" + std::to_string(device.ordinal); }

DeviceBackend& device_backend(DeviceKind kind) {
  static HostBackend host;
  if (kind == DeviceKind::host) return host;
  return device_module().backend();
}

std::string why_unavailable(DeviceKind kind) {
  if (kind == DeviceKind::host) return {};
  return DeviceModule::why_unavailable();
}

std::string device_name(Device device) {
  return device.kind == DeviceKind::host ? "host" : device_module().device_name(device.ordinal);
}

void* device_module_entry(const char* name, const std::type_info& type) { return device_module().entry(name, type); }

namespace {
std::atomic<std::int64_t> bytes_now{0}, bytes_peak{0};

void count_bytes(std::int64_t change) {
  const std::int64_t now = bytes_now.fetch_add(change, std::memory_order_relaxed) + change;
  std::int64_t peak = bytes_peak.load(std::memory_order_relaxed);
  while (now > peak && !bytes_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}
}  // namespace

std::int64_t buffer_bytes() { return bytes_now.load(std::memory_order_relaxed); }
std::int64_t buffer_bytes_peak() { return bytes_peak.load(std::memory_order_relaxed); }
void reset_buffer_bytes_peak() { bytes_peak.store(buffer_bytes(), std::memory_order_relaxed); }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)), device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(device_, other.device_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  count_bytes(-static_cast<std::int64_t>(capacity_));
  device_backend(device_.kind).release(data_, device_.ordinal);
}

void Buffer::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  DeviceBackend& backend = device_backend(device_.kind);
  if (data_ != nullptr) {
    count_bytes(-static_cast<std::int64_t>(capacity_));
    backend.release(std::exchange(data_, nullptr), device_.ordinal);
  }
  capacity_ = 0;
  data_ = static_cast<std::byte*>(backend.allocate(bytes, device_.ordinal));
  capacity_ = bytes;
  count_bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace thinwire
