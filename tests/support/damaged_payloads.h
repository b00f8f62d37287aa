// Payloads with some bytes changed: CorruptData, or a tensor of finite numbers. The asan-ubsan build sees whether anything else happened.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "kernels/codec/registry.h"

namespace thinwire::testing {

inline void expect_damage_is_refused_or_harmless(const std::string& expression, const std::vector<float>& x, const Shape& shape, std::uint64_t seed, int rounds = 200) {
  SCOPED_TRACE(expression + " " + shape.to_string() + ", seed " + std::to_string(seed));
  const Random random(seed, "damage");
  CodecStack stack = make_codec(expression);
  MessageKey key;
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), key, payload));
  std::vector<float> out(x.size());
  std::uint64_t draw = 0;
  for (int i = 0; i < rounds; ++i) {
    std::vector<std::byte> damaged(payload);
    for (std::uint64_t flips = 1 + random.below(draw++, 6); flips > 0; --flips, draw += 2) damaged[random.below(draw, damaged.size())] ^= static_cast<std::byte>(1 + random.below(draw + 1, 255));
    if (i % 5 == 4) damaged.resize(random.below(draw++, damaged.size()));
    damaged.shrink_to_fit();
    try {
      stack.codec->decode(damaged, key, TensorView(out.data(), shape));
    } catch (const CorruptData&) {
      continue;
    }
    for (const float v : out) ASSERT_TRUE(std::isfinite(v) || stack.codec->traits().reordered_sums) << "products of damaged coefficients may overflow, nothing else";
  }
}

}  // namespace thinwire::testing
