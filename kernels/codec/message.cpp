#include "kernels/codec/message.h"

#include <utility>

#include "kernels/values.h"

namespace thinwire {
namespace {

void negate(TensorView x) { scale_values(x, x, -1.0f); }

}  // namespace

std::size_t encode_message(CodecStack& stack, ConstTensorView in, const MessageKey& key, std::span<std::byte> payload, MessageScratch& scratch) {
  Codec& codec = *stack.codec;
  if (stack.wrappers.empty()) return codec.encode(in, key, payload);
  // A look at the own message, not its arrival: nothing to remember.
  const MessageKey look = key.with_pass(Pass::evaluate);
  if (stack.wrappers.size() == 1 && in.dtype() == DType::f32) {
    if (const TensorView lent = stack.wrappers.front()->lend_residual(in, key); lent.elements() > 0) {
      const std::size_t bytes = codec.encode(lent, key, payload);
      // lent - decoded without a tensor to decode into: codecs add where they can.
      negate(lent);
      codec.decode_add(payload.first(bytes), look, lent);
      negate(lent);
      return bytes;
    }
  }
  scratch.local.reshape(in.shape());  // f32: wrappers' state is
  convert_values(in.data(), in.dtype(), scratch.local.view().data(), DType::f32, in.elements());
  for (auto& wrapper : stack.wrappers) wrapper->before_encode(scratch.local.view(), key);
  const ConstTensorView x = std::as_const(scratch.local).view();
  const std::size_t bytes = codec.encode(x, key, payload);
  scratch.own.reshape(in.shape());
  codec.decode(payload.first(bytes), look, scratch.own.view());
  for (auto wrapper = stack.wrappers.rbegin(); wrapper != stack.wrappers.rend(); ++wrapper)
    (*wrapper)->after_encode(x, std::as_const(scratch.own).view(), key);
  return bytes;
}

void decode_message(CodecStack& stack, std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  if (!stack.wrappers.empty() && out.dtype() != DType::f32) {
    Tensor wide(out.shape());
    decode_message(stack, payload, key, wide.view());
    return convert_values(wide.view().data(), DType::f32, out.data(), out.dtype(), out.elements());
  }
  stack.codec->decode(payload, key, out);
  for (auto wrapper = stack.wrappers.rbegin(); wrapper != stack.wrappers.rend(); ++wrapper) (*wrapper)->after_decode(out, key);
}

}  // namespace thinwire
