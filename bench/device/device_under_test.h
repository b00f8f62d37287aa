// One CUDA device as a bench sees it: memory, a stream, and times on the device's own clock.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/device/device_abi.h"
#include "core/device/placement.h"
#include "results/row.h"

namespace thinwire::bench {

/// Whether a device's kernels run on the host, block by block. Results hold there; times say nothing about a GPU.
inline bool is_emulated(Device device) { return device_name(device).starts_with("emulated"); }

/// Of the fill before timed work: several times what second-level caches hold (50 MB on an H100, 60 on an H200).
inline constexpr std::size_t lead_bytes = std::size_t{256} << 20;

class DeviceUnderTest {
 public:
  /// Fills before timed work at most: some 5 ms, which hide a thousand launches.
  static constexpr int most_fills = 64;

  /// EnvironmentError when there is no such device.
  explicit DeviceUnderTest(int ordinal)
      : device_{DeviceKind::cuda, ordinal}, backend_(device_backend(DeviceKind::cuda)), stream_(backend_.create_stream(ordinal)),
        lead_bytes_(is_emulated(device_) ? 4096 : lead_bytes) {
    begin_ = backend_.create_event(ordinal), end_ = backend_.create_event(ordinal);
    lead_ = allocate(lead_bytes_);
  }
  ~DeviceUnderTest() {
    backend_.destroy_event(begin_), backend_.destroy_event(end_);
    backend_.destroy_stream(stream_);
  }
  DeviceUnderTest(const DeviceUnderTest&) = delete;
  DeviceUnderTest& operator=(const DeviceUnderTest&) = delete;

  /// Lives as long as this object.
  void* allocate(std::size_t bytes) {
    memory_.emplace_back(std::max<std::size_t>(bytes, 16), device_);
    return memory_.back().data();
  }
  void copy(void* to, const void* from, std::size_t bytes) { backend_.copy(to, from, bytes, stream_); }
  /// Between host and device, done on return.
  void transfer(void* to, const void* from, std::size_t bytes) {
    copy(to, from, bytes);
    backend_.synchronize(stream_);
  }
  /// Microseconds of what `body` queues. Fills go before it: while the device is busy with them the host queues the rest, so that no launch is
  /// waited for, and afterwards the caches hold nothing of the operands. Where the device was done with them before everything was queued, `body` runs
  /// again after twice as many.
  double timed_us(const std::function<void()>& body) {
    for (;; fills_ *= 2) {
      for (int i = 0; i < fills_; ++i) backend_.fill_zero(lead_, lead_bytes_, stream_);
      backend_.record(begin_, stream_);
      body();
      backend_.record(end_, stream_);
      const bool hidden = !backend_.finished(begin_);
      backend_.synchronize(stream_);
      exposed_ = exposed_ || (!hidden && fills_ >= most_fills);
      if (hidden || fills_ >= most_fills) return backend_.elapsed_ms(begin_, end_) * 1e3;
    }
  }
  int fills() const { return fills_; }
  /// Whether most_fills was not enough for something that was timed: its launches, or waits, are in its time.
  bool exposed() const { return exposed_; }
  /// Calls entry point `name`. EnvironmentError where a library of CUDA is missing, RuntimeFailure with CUDA's text for other errors.
  template <typename Function, typename... Arguments>
  void call(const char* name, Arguments... arguments) {
    const int code = device_function<Function>(name)(arguments..., device_.ordinal, stream_.handle);
    if (code == 0) return;
    const auto text = device_function<thinwire_cuda_error_text_fn>("thinwire_cuda_error_text");
    if (code == THINWIRE_CUDA_NO_BLAS) throw EnvironmentError(text(code));
    throw RuntimeFailure(std::string(name) + " failed: " + text(code));
  }
  /// What is queued under it goes to the stream that is timed.
  Placement placement() const { return {device_, stream_}; }
  /// Device name and kind of time. Times of an emulated device are kept, but nothing may be concluded from them.
  void mark(results::CellRow& row) const {
    row.device = row.compute = device_name(device_);
    if (row.status == "OK" && is_emulated(device_)) {
      row.status = results::name_of(results::Status::mistrusted);
      row.reason = "the device is emulated on the host: results hold, times say nothing about a GPU";
    }
  }
  /// After timing.
  void judge(results::CellRow& row) const {
    if (row.status != "OK" || !exposed_) return;
    row.status = results::name_of(results::Status::mistrusted);
    row.reason = "the host queued the work more slowly than the device did the fills before it: launches or waits are in the time";
  }

 private:
  Device device_;
  DeviceBackend& backend_;
  Stream stream_;
  Event begin_, end_;
  std::vector<Buffer> memory_;
  std::size_t lead_bytes_;
  void* lead_ = nullptr;
  int fills_ = 1;
  bool exposed_ = false;
};

}  // namespace thinwire::bench
