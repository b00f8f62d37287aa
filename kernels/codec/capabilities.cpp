#include "kernels/codec/capabilities.h"

#include <cstring>
#include <utility>

#include "kernels/threads.h"
#include "kernels/values.h"

namespace thinwire {
namespace {

void copy_f32(ConstTensorView from, TensorView to) {
  if (!placement().on_host()) return copy_values(to, from);
  const auto source = from.as<float>();
  const auto target = to.as<float>();
  TW_ASSERT(source.size() == target.size(), from.shape().to_string() + " against " + to.shape().to_string());
  if (source.empty() || source.data() == target.data()) return;
  parallel_for(static_cast<std::int64_t>(source.size()), [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target.data() + begin, source.data() + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

}  // namespace

Round PayloadRounds::begin_round(int r, ConstTensorView x, const MessageKey& key, int) {
  TW_ASSERT(r == 0);
  const std::size_t bytes = codec_.max_payload_bytes(x.shape());
  held_->sent.reserve(bytes);
  held_->received.reserve(bytes);
  codec_.encode(x, key, {held_->sent.data(), bytes});
  return {{held_->sent.data(), bytes}, {held_->received.data(), bytes}, type_, ReduceOp::sum};
}

void PayloadRounds::end_rounds(const MessageKey& key, int, TensorView sum) {
  codec_.decode({held_->received.data(), codec_.max_payload_bytes(sum.shape())}, key, sum);
}

// A look at the own message, not its arrival: nothing to remember.
void PayloadRounds::own_decoded(const MessageKey& key, TensorView out) {
  codec_.decode({held_->sent.data(), codec_.max_payload_bytes(out.shape())}, key.with_pass(Pass::evaluate), out);
}

void Backward::reduction_backward(ConstTensorView gradient, const MessageKey& key, TensorView input_gradient) {
  scratch_.reshape(travel_shape(gradient.shape()));
  decode_backward(gradient, key, scratch_.view());
  encode_backward(std::as_const(scratch_).view(), key, input_gradient);
}

Shape travel_shape(const Codec& codec, const Shape& shape) {
  const auto* rule = codec.as<Backward>();
  return rule != nullptr ? rule->travel_shape(shape) : shape;
}

void decode_backward(Codec& codec, ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) {
  if (auto* rule = codec.as<Backward>()) return rule->decode_backward(decoded_gradient, key, travel);
  copy_f32(decoded_gradient, travel);
}

void encode_backward(Codec& codec, ConstTensorView travel, const MessageKey& key, TensorView input_gradient) {
  if (auto* rule = codec.as<Backward>()) return rule->encode_backward(travel, key, input_gradient);
  copy_f32(travel, input_gradient);
}

void reduction_backward(Codec& codec, ConstTensorView gradient, const MessageKey& key, TensorView input_gradient) {
  if (auto* rule = codec.as<Backward>()) return rule->reduction_backward(gradient, key, input_gradient);
  copy_f32(gradient, input_gradient);
}

std::vector<CodecProduct> Products::decode_products(const Shape& shape) const {
  using Operand = CodecProduct::Operand;
  return {{false, true, shape.rows(), shape.columns(), product_width(shape), Operand::left, Operand::right, Operand::out}};
}

}  // namespace thinwire
