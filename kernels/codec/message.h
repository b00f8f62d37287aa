// One point-to-point message through a codec and its wrappers: what a channel does around its transfer, and what a single process that
// stands in for both ends does without one.
#pragma once

#include "kernels/codec/registry.h"

namespace thinwire {

/// Memory that outlives messages, so that a steady state allocates nothing.
struct MessageScratch {
  Tensor local, own;
};

/// Sender. Writes the payload of `in` (f32 or bf16, untouched) and returns its size in bytes; `payload` has max_payload_bytes(in.shape()). A single
/// wrapper that lends its residual (Wrapper::lend_residual) is worked with in place; else the hooks see a private copy and its decoded
/// baseline.
std::size_t encode_message(CodecStack& stack, ConstTensorView in, const MessageKey& key, std::span<std::byte> payload, MessageScratch& scratch);

/// Receiver. Overwrites `out`, f32 or bf16.
void decode_message(CodecStack& stack, std::span<const std::byte> payload, const MessageKey& key, TensorView out);

}  // namespace thinwire
