// Codecs on a device behind the interface of the host's: tensors, payloads and what is remembered between messages lie there, and work is
// queued on the placement's stream (core/device/placement.h). make_codec takes them under a device placement.
#pragma once

#include <array>

#include "kernels/codec/registry.h"

namespace thinwire {

/// The device form of an expression's codec (its wrappers are those of the host). UsageError naming the codec when it has none.
std::unique_ptr<Codec> make_placed_codec(const CodecExpression& expression, Form form);

/// What kernels found, in device memory: one word about tensors that were encoded (and gradients), one about payloads that were decoded.
class StatusWords {
 public:
  StatusWords();
  std::uint32_t* tensors() { return reinterpret_cast<std::uint32_t*>(words_.data()); }
  std::uint32_t* payloads() { return tensors() + 1; }
  const std::uint32_t* both() const { return reinterpret_cast<const std::uint32_t*>(words_.data()); }
  /// Throws what a host codec would: RuntimeFailure for a tensor that cannot be represented, CorruptData for a payload. `seen`: a copy of
  /// both words; those on the device are cleared before.
  void check(std::array<std::uint32_t, 2> seen, const char* codec, const MessageKey& key);

 private:
  Buffer words_;
};

}  // namespace thinwire
