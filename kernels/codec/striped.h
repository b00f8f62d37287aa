// What lets a transform of neighbours and the codec behind it go through a tensor together, a stripe at a time, where the transformed tensor would go to memory and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codec/codec.h"

namespace thinwire {

/// A map of neighbours of a row to as many numbers, so that a row may be mapped piece by piece.
class StripeMap {
 public:
  virtual ~StripeMap() = default;
  /// `to` gets what becomes of `count` elements from `column` of a row on; it may be `from`. Threads call it at once.
  virtual void apply(const float* from, std::int64_t column, std::size_t count, float* to) const = 0;
};

/// A codec whose payload is made of stripes, neighbours of a row that stay in a core's cache, each read once and for itself. Payloads are those of encode: `before` the codec
/// and `behind` it are maps, not formats.
class Striped {
 public:
  virtual ~Striped() = default;
  /// Whether tensors of this shape have such stripes, and each begins at a multiple of `neighbours` in its row and ends at one or with the row.
  virtual bool has_stripes(const Shape& shape, std::int64_t neighbours) const = 0;
  /// Encodes what `before` makes of x. NotRepresentable where that is NaN or infinite.
  virtual std::size_t encode_stripes(ConstTensorView x, const MessageKey& key, const StripeMap& before, std::span<std::byte> payload) = 0;
  /// out = what `behind` makes of the decoded tensor; `add` adds it to out.
  virtual void decode_stripes(std::span<const std::byte> payload, const MessageKey& key, const StripeMap& behind, bool add, TensorView out) = 0;
};

}  // namespace thinwire
