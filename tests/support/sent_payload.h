// A tensor through a codec: its payload byte by byte, and what is decoded from it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/codec/registry.h"

namespace thinwire::testing {

struct SentPayload {
  std::vector<int> bytes;
  std::vector<float> decoded;
};

inline SentPayload send_payload(const std::string& expression, const std::vector<float>& x, const Shape& shape, std::int64_t step = 0, Form form = Form::fair) {
  MessageKey key;
  key.tensor = hash_name("payload");
  key.step = step;
  CodecStack stack = make_codec(expression, form);
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), key, payload));
  EXPECT_TRUE(!stack.codec->traits().fixed_size || payload.size() == stack.codec->max_payload_bytes(shape)) << "a codec of fixed size uses its bound";
  SentPayload sent;
  for (const std::byte b : payload) sent.bytes.push_back(static_cast<int>(b));
  sent.decoded.assign(x.size(), -7.0f);
  stack.codec->decode(payload, key, TensorView(sent.decoded.data(), shape));
  return sent;
}

}  // namespace thinwire::testing
