// Token numbers where the placement's kernels can read them.
#pragma once

#include <cstdint>
#include <span>

#include "core/device/placement.h"

namespace thinwire::nn {

/// One list of tokens, or of targets, of a micro-batch. On the host it is the caller's list itself; on a device a copy, uploaded from page-locked
/// memory in the order of the placement's stream. Allocates only when lists become longer.
class PlacedTokens {
 public:
  PlacedTokens() = default;
  PlacedTokens(PlacedTokens&& other) noexcept;
  PlacedTokens& operator=(PlacedTokens&& other) noexcept;
  ~PlacedTokens();

  /// The list's address for the placement's kernels, until the next call. On the host `tokens` must live as long. Waits only where the upload
  /// before is not done yet.
  const std::int32_t* set(std::span<const std::int32_t> tokens);
  const std::int32_t* data() const { return data_; }

 private:
  void release() noexcept;
  void wait_for_upload();
  const std::int32_t* data_ = nullptr;
  Buffer memory_{Device{}};
  std::int32_t* staging_ = nullptr;
  std::size_t capacity_ = 0;
  Placement where_;  ///< of memory, staging and event
  Event uploaded_;
};

}  // namespace thinwire::nn
