#include "experiments/claims/activation_compression/cells/sent.h"

#include "core/random.h"

namespace thinwire::claims::activation_compression {

std::vector<int> Sent::bytes(std::size_t from) const {
  std::vector<int> numbers;
  for (std::size_t i = from; i < payload.size(); ++i) numbers.push_back(std::to_integer<int>(payload[i]));
  return numbers;
}

Sent send(CodecStack& stack, const Floats& x, const Shape& shape, const MessageKey& key) {
  Sent sent;
  sent.payload.resize(stack.codec->max_payload_bytes(shape));
  sent.payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), key, sent.payload));
  sent.decoded.resize(x.size());
  stack.codec->decode(sent.payload, key, TensorView(sent.decoded.data(), shape));
  return sent;
}
Sent send(const std::string& codec, const Floats& x, const Shape& shape, Form form) {
  CodecStack stack = make_codec(codec, form);
  return send(stack, x, shape);
}

Floats normal_numbers(std::int64_t count, const std::string& name, std::uint64_t seed) {
  const Random random(seed, name);
  Floats values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random.normal(i));
  return values;
}

double square_error(const Floats& decoded, const Floats& x) {
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) lost += (double{decoded[i]} - x[i]) * (double{decoded[i]} - x[i]), all += double{x[i]} * x[i];
  return lost / all;
}

}  // namespace thinwire::claims::activation_compression
