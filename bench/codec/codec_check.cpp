#include "bench/codec/codec_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/random.h"
#include "kernels/codec/transformed_codec.h"

namespace thinwire::bench {
namespace {

void require(bool holds, const CodecStack& stack, const std::string& what) {
  if (!holds) throw WrongResult(stack.expression.canonical() + ": " + what + "; the codec is not timed");
}

std::string check_reference(const CodecStack& stack, const MessageKey& key, ConstTensorView x, std::span<const float> out);

/// A codec that sees a transformed tensor: its own reference there, by another codec of its kind, and that the way back leads to `out`.
std::string check_transformed(const CodecStack& stack, Transform& transform, const MessageKey& key, ConstTensorView x, std::span<const float> out) {
  const CodecTraits& traits = stack.codec->traits();
  if (traits.needs_fit) return "none (structural checks only)";  // another one would have other weights
  CodecExpression inside = stack.expression;
  std::erase_if(inside.wrappers, [](const auto& part) { return !wrapper_info(part.name).decorate; });
  inside.wrappers.pop_back();
  CodecStack plain = make_codec(inside, stack.form);
  const Shape shape = transform.transformed_shape(x.shape());
  Tensor seen(shape), decoded(shape), restored(x.shape());
  transform.transform(x, key, seen.view());
  std::vector<std::byte> payload(plain.codec->max_payload_bytes(shape));
  payload.resize(plain.codec->encode(seen.view(), key, payload));
  plain.codec->decode(payload, key, decoded.view());
  const std::string reference = check_reference(plain, key, seen.view(), decoded.as<float>());
  transform.restore(decoded.view(), key, restored.view());
  const double most = traits.reordered_sums ? 1e-4 : 0;
  for (std::size_t i = 0; i < out.size(); ++i)
    require(std::abs(restored.as<float>()[i] - out[i]) <= most * (1 + std::abs(double{out[i]})), stack, "it is not the codec inside, transformed and turned back");
  return reference + ", of the transformed tensor";
}

std::string check_reference(const CodecStack& stack, const MessageKey& key, ConstTensorView x, std::span<const float> out) {
  if (auto* const transform = dynamic_cast<Transform*>(stack.codec.get())) return check_transformed(stack, *transform, key, x, out);
  // One that is no transform hands an evaluation on, but perhaps to one that is: then the codec's own reference says nothing of x.
  if (std::ranges::count_if(stack.expression.wrappers, [](const auto& part) { return static_cast<bool>(wrapper_info(part.name).decorate); }) > 1) return "none (structural checks only)";
  if (stack.codec->traits().lossless) {
    require(std::memcmp(x.data(), out.data(), x.bytes()) == 0, stack, "it calls itself lossless but changed the tensor");
    return "bit-equal";
  }
  const CodecInfo& info = codec_info(stack.expression.codec.name);
  if (!info.check) return "none (structural checks only)";
  try {
    return info.check(stack, x, out);
  } catch (const WrongResult& wrong) {
    require(false, stack, wrong.what());
  }
  return {};
}

}  // namespace

std::vector<std::int32_t> bench_tokens(std::int64_t rows) {
  const Random random(1, "bench.tokens");
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < tokens.size(); ++r) tokens[r] = static_cast<std::int32_t>(random.below(r, 256));
  return tokens;
}

CodecCheck check_codec(CodecStack& stack, ConstTensorView x) {
  Codec& codec = *stack.codec;
  MessageKey key;
  key.tensor = hash_name("bench");
  key.pass = Pass::evaluate;
  const std::vector<std::int32_t> tokens = bench_tokens(x.shape().rows());
  key.tokens = tokens;
  std::vector<std::byte> payload(codec.max_payload_bytes(x.shape()));
  const std::size_t size = codec.encode(x, key, payload);
  require(size <= payload.size(), stack, "its payload of " + std::to_string(size) + " bytes exceeds the declared " + std::to_string(payload.size()));
  payload.resize(size);
  std::vector<float> out(static_cast<std::size_t>(x.elements()), -1.0f), again(out.size(), 1.0f);
  codec.decode(payload, key, TensorView(out.data(), x.shape()));
  codec.decode(payload, key, TensorView(again.data(), x.shape()));
  require(std::memcmp(out.data(), again.data(), out.size() * sizeof(float)) == 0, stack, "decoding twice gives two results");
  std::fill(again.begin(), again.end(), 1.0f);
  codec.decode_add(payload, key, TensorView(again.data(), x.shape()));
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) worst = std::max(worst, std::abs(again[i] - (1.0 + out[i])) / (1 + std::abs(double{out[i]})));
  require(worst < 1e-4, stack, "decode_add is not out + decode");
  if (size > 0) {
    bool refused = false;
    try {
      codec.decode(std::span(payload).first(size - 1), key, TensorView(again.data(), x.shape()));
    } catch (const CorruptData&) {
      refused = true;
    }
    require(refused, stack, "it accepts a payload that lost its last byte");
  }
  CodecCheck check;
  check.payload_bytes = size;
  check.error = error_metrics(out, x.as<float>());
  check.reference = check_reference(stack, key, x, out);
  return check;
}

}  // namespace thinwire::bench
