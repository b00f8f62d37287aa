#include "kernels/nn/device/placed_tokens.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace thinwire::nn {

PlacedTokens::PlacedTokens(PlacedTokens&& other) noexcept { *this = std::move(other); }

PlacedTokens& PlacedTokens::operator=(PlacedTokens&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(memory_, other.memory_);
  std::swap(staging_, other.staging_);
  std::swap(capacity_, other.capacity_);
  std::swap(where_, other.where_);
  std::swap(uploaded_, other.uploaded_);
  return *this;
}

PlacedTokens::~PlacedTokens() { release(); }

void PlacedTokens::wait_for_upload() {
  if (uploaded_.handle == nullptr) return;
  DeviceBackend& backend = device_backend(where_.device.kind);
  if (!backend.finished(uploaded_)) backend.synchronize(where_.stream);
}

// Memory must not go while the stream copies from or to it, and kernels may read the copy after that.
void PlacedTokens::release() noexcept {
  if (staging_ == nullptr) return;
  DeviceBackend& backend = device_backend(where_.device.kind);
  try {
    backend.synchronize(where_.stream);
  } catch (const Error&) {  // the device has failed: whoever uses it next says so
  }
  backend.destroy_event(uploaded_);
  backend.release_staging(std::exchange(staging_, nullptr), where_.device.ordinal);
  memory_ = Buffer(Device{});
  capacity_ = 0;
}

const std::int32_t* PlacedTokens::set(std::span<const std::int32_t> tokens) {
  const Placement& here = placement();
  if (here.on_host()) return data_ = tokens.data();
  DeviceBackend& backend = device_backend(here.device.kind);
  const bool elsewhere = !(where_.device == here.device) || where_.stream.handle != here.stream.handle;
  if (staging_ != nullptr && (elsewhere || tokens.size() > capacity_)) release();
  if (staging_ == nullptr) {
    where_ = here;
    memory_ = Buffer(std::max<std::size_t>(1, tokens.size()) * sizeof(std::int32_t), here.device);
    staging_ = static_cast<std::int32_t*>(backend.allocate_staging(memory_.capacity(), here.device.ordinal));
    uploaded_ = backend.create_event(here.device.ordinal);
    capacity_ = tokens.size();
  } else {
    wait_for_upload();
  }
  std::copy(tokens.begin(), tokens.end(), staging_);
  copy_bytes(memory_.data(), staging_, tokens.size_bytes());
  backend.record(uploaded_, here.stream);
  return data_ = reinterpret_cast<const std::int32_t*>(memory_.data());
}

}  // namespace thinwire::nn
