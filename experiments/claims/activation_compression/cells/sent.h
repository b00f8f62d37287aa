// A message from a codec to itself: for what is claimed of payloads and of the codecs' arithmetic alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/codec/registry.h"

namespace thinwire::claims::activation_compression {

using Floats = std::vector<float>;

struct Sent {
  std::vector<std::byte> payload;
  Floats decoded;
  /// The payload's bytes as numbers, from `from` on.
  std::vector<int> bytes(std::size_t from = 0) const;
};
Sent send(CodecStack& stack, const Floats& x, const Shape& shape, const MessageKey& key = {});
Sent send(const std::string& codec, const Floats& x, const Shape& shape, Form form = Form::fair);

/// Independent standard normal numbers of this name.
Floats normal_numbers(std::int64_t count, const std::string& name, std::uint64_t seed = 18);
/// ||decoded - x||^2 / ||x||^2.
double square_error(const Floats& decoded, const Floats& x);

}  // namespace thinwire::claims::activation_compression
