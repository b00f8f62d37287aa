// Dense factors on the wire (codes, P, Q) in f32 or f16: conversion, and what must not pass.
#pragma once

#include <span>
#include <string>

#include "core/device/device.h"
#include "core/device/tensor.h"
#include "kernels/codec/payload/message_key.h"

namespace thinwire {

class WireValues {
 public:
  explicit WireValues(DType type) : type_(type) { TW_ASSERT(type == DType::f32 || type == DType::f16); }
  DType type() const { return type_; }
  std::size_t bytes(std::int64_t count) const { return static_cast<std::size_t>(count) * size_of(type_); }

  /// Writes `values` to `out` (bytes(values.size())). NotRepresentable naming `what` and the message when a value
  /// is NaN or infinite, or too large for f16. `source` is the tensor the values come from: a NaN in it is
  /// reported with its position.
  void write(std::span<const float> values, std::span<std::byte> out, const char* what, const MessageKey& key, ConstTensorView source);
  /// Values of `wire`, in place where type and alignment allow, else in scratch that lives until the next
  /// read. NonFiniteData naming `what` when one is not finite. The size must have been checked.
  std::span<const float> read(std::span<const std::byte> wire, const char* what, const MessageKey& key);

 private:
  DType type_;
  Buffer aligned_, scratch_;
};

/// "tensor 0x1234... (step 3, micro-batch 1)": how errors of a codec name a message.
std::string text_of(const MessageKey& key);

/// CorruptData unless a payload has the one size that its shape implies.
void check_payload_size(std::size_t actual, std::size_t expected, const char* codec, const Shape& shape, const MessageKey& key);

/// Throws NotRepresentable naming `what` and the first bad position when `x` holds NaN or infinity.
void check_finite(ConstTensorView x, std::string_view what);

/// Whether no value is NaN or infinite.
bool all_finite(std::span<const float> values);

}  // namespace thinwire
