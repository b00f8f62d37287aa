#include "kernels/codec/message.h"

#include <utility>

#include "kernels/values.h"

namespace thinwire {
namespace {

void negate(TensorView x) { scale_values(x, x, -1.0f); }

}  // namespace

void CodecStack::before_encode(TensorView x, const MessageKey& key) {
  for (auto wrapper = wrappers.rbegin(); wrapper != wrappers.rend(); ++wrapper) (*wrapper)->before_encode(x, key);
}
void CodecStack::start_from(ConstTensorView held, const MessageKey& key, bool own) {
  for (auto& wrapper : wrappers) wrapper->start_from(held, key, own);
}
void CodecStack::after_encode(ConstTensorView x, ConstTensorView own_decoded, const MessageKey& key) {
  for (auto& wrapper : wrappers) wrapper->after_encode(x, own_decoded, key);
}
void CodecStack::after_decode(TensorView decoded, const MessageKey& key) {
  for (auto& wrapper : wrappers) wrapper->after_decode(decoded, key);
}
void CodecStack::keep_own(TensorView decoded, const MessageKey& key) {
  for (auto& wrapper : wrappers) wrapper->keep_own(decoded, key);
}
void CodecStack::deliver(TensorView reduced, const MessageKey& key) {
  for (auto& wrapper : wrappers) wrapper->deliver(reduced, key);
}
void CodecStack::after_reduce(ConstTensorView local, ConstTensorView own_decoded, ConstTensorView reduced_mean, const MessageKey& key) {
  for (auto& wrapper : wrappers) wrapper->after_reduce(local, own_decoded, reduced_mean, key);
}

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
  stack.before_encode(scratch.local.view(), key);
  const ConstTensorView x = std::as_const(scratch.local).view();
  const std::size_t bytes = codec.encode(x, key, payload);
  scratch.own.reshape(in.shape());
  codec.decode(payload.first(bytes), look, scratch.own.view());
  stack.after_encode(x, std::as_const(scratch.own).view(), key);
  return bytes;
}

void decode_message(CodecStack& stack, std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  if (!stack.wrappers.empty() && out.dtype() != DType::f32) {
    Tensor wide(out.shape());
    decode_message(stack, payload, key, wide.view());
    return convert_values(wide.view().data(), DType::f32, out.data(), out.dtype(), out.elements());
  }
  stack.codec->decode(payload, key, out);
  stack.after_decode(out, key);
}

}  // namespace thinwire
