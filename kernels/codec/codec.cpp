#include "kernels/codec/codec.h"

#include <algorithm>
#include <utility>

#include "kernels/values.h"

namespace thinwire {

std::string name_of(Form form) {
  return form == Form::fair ? "fair" : "released";
}

Form parse_form(std::string_view name) {
  if (name == "fair") return Form::fair;
  if (name == "released") return Form::released;
  throw UsageError(
      "unknown form '" + std::string(name) +
      "'; forms are: fair (our best implementation), released (literally what the authors' code does)");
}

std::string text_of(const CodecTraits& traits) {
  std::string text = traits.lossless ? "lossless" : "lossy";
  if (!traits.fixed_size) text += "; size goes by the values";
  text += "; reduces ";
  if (traits.rounds > 0) {
    const auto needs = [&](ReduceOp op) {
      return std::find(traits.operators.begin(), traits.operators.end(), op) != traits.operators.end();
    };
    text += "by " + std::to_string(traits.rounds) + (traits.rounds == 1 ? " round" : " rounds") +
            " of dense reductions" + (needs(ReduceOp::bit_or) ? " (one by OR)" : "") +
            (traits.gather ? ", " : "");
  }
  if (traits.gather) text += traits.rounds > 0 ? "a gather or two shots" : "by a gather or two shots";
  text += traits.backward == BackwardRule::masked       ? "; backward: the gradient at kept elements"
          : traits.backward == BackwardRule::linear_map ? "; backward: the gradient of the code"
                                                        : "; backward: the gradient as it is";
  if (traits.stateful) text += "; remembers earlier messages";
  if (traits.by_sample) text += "; goes by sample";
  if (traits.by_token) text += "; goes by token";
  if (traits.needs_fit) text += "; is fitted before its first message";
  if (traits.flat) text += "; takes a list as it takes a matrix";
  if (traits.takes_bf16) text += "; takes bf16 as it is";
  return text;
}

bool Codec::takes(DType dtype) const {
  if (dtype == DType::f32) return true;
  if (dtype != DType::bf16)
    throw UsageError("a codec takes tensors of f32 or bf16, not " + std::string(name_of(dtype)));
  return traits().takes_bf16;
}

std::size_t Codec::encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) {
  if (takes(x.dtype())) return write_payload(x, key, payload);
  converted_.reshape(x.shape());
  convert_values(x.data(), x.dtype(), converted_.view().data(), DType::f32, x.elements());
  return write_payload(std::as_const(converted_).view(), key, payload);
}

void Codec::decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  if (takes(out.dtype())) return read_payload(payload, key, out);
  converted_.reshape(out.shape());
  read_payload(payload, key, converted_.view());
  convert_values(converted_.view().data(), DType::f32, out.data(), out.dtype(), out.elements());
}

void Codec::decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  if (takes(out.dtype())) return add_payload(payload, key, out);
  converted_.reshape(out.shape());
  convert_values(out.data(), out.dtype(), converted_.view().data(), DType::f32, out.elements());
  add_payload(payload, key, converted_.view());
  convert_values(converted_.view().data(), DType::f32, out.data(), out.dtype(), out.elements());
}

void Codec::add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  scratch_.reshape(out.shape());
  read_payload(payload, key, scratch_.view());
  add_values(out, std::as_const(scratch_).view());
}

}  // namespace thinwire
