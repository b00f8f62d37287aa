// labels: unit
// The exponent window against docs/papers/sharded_compression.md, "Exponent window": bits come back whatever they are.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "core/half.h"
#include "kernels/convert.h"
#include "support/codec_rounds.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;

constexpr std::uint64_t seed = 20260504;
constexpr std::size_t lengths[] = {0, 1, 2, 7, 8, 9, 15, 17, 31, 33, 63, 64, 65, 1000, 2047, 2048, 2049, 4096, 5001};

MessageKey key_of() {
  MessageKey key;
  key.tensor = hash_name("lossless");
  return key;
}

Shape line(std::size_t n) { return Shape{1, static_cast<std::int64_t>(n)}; }

template <typename Value>
std::vector<std::byte> encode(CodecStack& stack, const std::vector<Value>& x) {
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(line(x.size())));
  payload.resize(stack.codec->encode(ConstTensorView(x.data(), line(x.size())), key_of(), payload));
  payload.shrink_to_fit();  // so that a sanitizer sees any access behind the end
  return payload;
}
template <typename Value>
std::vector<Value> decode(CodecStack& stack, const std::vector<std::byte>& payload, std::size_t n) {
  std::vector<Value> out(n);
  stack.codec->decode(payload, key_of(), TensorView(out.data(), line(n)));
  return out;
}
template <typename Value>
::testing::AssertionResult comes_back(CodecStack& stack, const std::vector<Value>& x) {
  const std::vector<Value> out = decode<Value>(stack, encode(stack, x), x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(&x[i], &out[i], sizeof(Value)) != 0) return ::testing::AssertionFailure() << "element " << i << " of " << x.size();
  return ::testing::AssertionSuccess();
}

std::vector<BFloat16> halves(const std::vector<float>& x) {
  std::vector<BFloat16> out(x.size());
  convert(std::span<const float>(x), std::span(out));
  return out;
}
std::vector<int> bytes_of(const std::vector<std::byte>& payload) {
  std::vector<int> bytes;
  for (const std::byte b : payload) bytes.push_back(static_cast<int>(b));
  return bytes;
}

const std::vector<BFloat16> page = {{0x3c80}, {0xbcc0}, {0x3c00}, {0x3d00}, {0xbb80}, {0x3a80}, {0x3d80}, {0x33d7}};

TEST(LosslessVectors, ThePagesEightNumbers) {
  CodecStack stack = make_codec("lossless");
  // Codes 2 2 3 1 4 6 0 7 by planes, then signs with mantissas, then the escape.
  const std::vector<int> expected = {2, 123, 0b10001100, 0b10100111, 0b10110000, 0, 0xc0, 0, 0, 0x80, 0, 0, 0x57, 103};
  EXPECT_EQ(bytes_of(encode(stack, page)), expected);
  EXPECT_TRUE(comes_back(stack, page));
}

TEST(LosslessVectors, TheWindowBelowTheLargestExponentLosesTheLargestToAnEscape) {
  CodecStack stack = make_codec("lossless:window=top");
  const std::vector<int> bytes = bytes_of(encode(stack, page));
  ASSERT_EQ(bytes.size(), 15u);
  EXPECT_EQ(bytes[1], 122);
  EXPECT_EQ(bytes[13], 123);
  EXPECT_EQ(bytes[14], 103);
  EXPECT_TRUE(comes_back(stack, page));
}

TEST(Lossless, EveryPatternOfBf16ComesBackOnEveryTarget) {
  std::vector<BFloat16> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i * 40503);  // an odd factor: every pattern once
  testing::on_every_simd_target([&] {
    for (const char* expression : {"lossless", "lossless:window=top"}) {
      CodecStack stack = make_codec(expression);
      EXPECT_TRUE(comes_back(stack, all)) << expression;
    }
  });
}

TEST(Lossless, AnyBitsOfAnyLengthComeBackOnEveryTarget) {
  const Random random(seed, "patterns");
  testing::on_every_simd_target([&] {
    for (const char* expression : {"lossless", "lossless:window=top"}) {
      CodecStack stack = make_codec(expression);
      for (const std::size_t n : lengths) {
        std::vector<float> wild(n), tame = normal_numbers(static_cast<std::int64_t>(n), n);
        for (std::size_t i = 0; i < n; ++i) {
          const std::uint32_t bits = random.bits32(i);
          std::memcpy(&wild[i], &bits, sizeof bits);
        }
        EXPECT_TRUE(comes_back(stack, wild)) << expression << ", seed " << seed;
        EXPECT_TRUE(comes_back(stack, tame)) << expression;
        EXPECT_TRUE(comes_back(stack, halves(tame))) << expression;
      }
    }
  });
}

TEST(Lossless, F32ThatHoldsBf16TravelsAsBf16) {
  CodecStack stack = make_codec("lossless");
  const std::vector<BFloat16> x16 = halves(normal_numbers(5001, 3));
  std::vector<float> x(x16.size());
  convert(std::span<const BFloat16>(x16), std::span(x));
  EXPECT_EQ(encode(stack, x), encode(stack, x16));
  EXPECT_TRUE(comes_back(stack, x));
  x[4000] = std::nextafter(x[4000], 9.0f);
  EXPECT_GT(encode(stack, x).size(), encode(stack, x16).size() + 2 * 5000);
  EXPECT_TRUE(comes_back(stack, x));
}

TEST(Lossless, BothEndsMayHoldOtherTypes) {
  CodecStack stack = make_codec("lossless");
  const std::vector<float> x = normal_numbers(3000, 4);
  const std::vector<BFloat16> x16 = halves(x), out16 = decode<BFloat16>(stack, encode(stack, x), x.size());
  const std::vector<float> out = decode<float>(stack, encode(stack, x16), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(out16[i].bits, x16[i].bits);
    ASSERT_EQ(out[i], to_float(x16[i]));
  }
}

TEST(Lossless, AddsInTheTypeOfTheTensor) {
  CodecStack stack = make_codec("lossless");
  const std::vector<float> x = normal_numbers(3000, 5);
  for (const bool narrow : {false, true}) {
    const std::vector<BFloat16> x16 = halves(x);
    const auto payload = narrow ? encode(stack, x16) : encode(stack, x);
    std::vector<float> sum(x.size(), 1.0f);
    std::vector<BFloat16> sum16(x.size(), to_bfloat16(1.0f));
    stack.codec->decode_add(payload, key_of(), TensorView(sum.data(), line(x.size())));
    stack.codec->decode_add(payload, key_of(), TensorView(sum16.data(), line(x.size())));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(sum[i], 1.0f + (narrow ? to_float(x16[i]) : x[i]));
      ASSERT_EQ(sum16[i].bits, to_bfloat16(1.0f + to_float(x16[i])).bits);
    }
  }
}

double ratio(const std::string& expression, std::size_t dense_bytes, const auto& x) {
  CodecStack stack = make_codec(expression);
  return static_cast<double>(dense_bytes) / static_cast<double>(encode(stack, x).size());
}

TEST(Lossless, RatiosAreThePages) {
  const std::size_t n = 1 << 18;
  const std::vector<float> normal = normal_numbers(static_cast<std::int64_t>(n), 6);
  EXPECT_NEAR(ratio("lossless", 2 * n, halves(normal)), 1.429, 0.003);
  EXPECT_NEAR(ratio("lossless", 4 * n, normal), 32 / 27.2, 0.003);
  std::vector<float> laplace = normal;
  const Random random(seed, "laplace");
  for (std::size_t i = 0; i < n; ++i) laplace[i] = std::copysign(static_cast<float>(-std::log(1 - random.uniform(i))), normal[i]);
  EXPECT_NEAR(ratio("lossless", 2 * n, halves(laplace)), 1.404, 0.003);
  EXPECT_LE(ratio("lossless:window=top", 2 * n, halves(normal)), ratio("lossless", 2 * n, halves(normal)));
}

TEST(Lossless, NoOtherWindowHasFewerEscapes) {
  const Random random(seed, "windows");
  CodecStack stack = make_codec("lossless");
  for (std::uint64_t round = 0; round < 200; ++round) {
    const std::size_t n = 1 + random.below(3 * round, 2048), spread = 1 + random.below(3 * round + 1, 256);
    std::vector<BFloat16> x(n);
    std::vector<std::size_t> counts(256 + 6, 0);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t exponent = random.below(10000 * (round + 1) + 2 * i, spread) * random.below(10000 * (round + 1) + 2 * i + 1, 256) / 256;
      x[i].bits = static_cast<std::uint16_t>(exponent << 7);
      ++counts[6 + exponent];
    }
    std::size_t most = 0;
    for (std::size_t top = 0; top < 256; ++top) most = std::max(most, std::accumulate(&counts[top], &counts[top] + 7, std::size_t{0}));
    EXPECT_EQ(encode(stack, x).size(), 2 + 3 * ((n + 7) / 8) + n + (n - most)) << n << " values of " << spread << " exponents";
    EXPECT_TRUE(comes_back(stack, x));
  }
}

TEST(Lossless, NothingButEscapesFillsTheBound) {
  CodecStack stack = make_codec("lossless:window=top");
  const std::vector<float> ones(5001, std::nextafter(1.0f, 2.0f));  // all above a window that ends below them
  EXPECT_EQ(encode(stack, ones).size(), stack.codec->max_payload_bytes(line(ones.size())));
  EXPECT_TRUE(comes_back(stack, ones));
  EXPECT_TRUE(comes_back(stack, std::vector<float>(5001, 0.0f)));
}

TEST(Lossless, EscapesThatDoNotAddUpAreRefused) {
  CodecStack stack = make_codec("lossless");
  const auto payload = encode(stack, page);
  const auto refuses = [&](std::size_t at, int value) {
    auto damaged = payload;
    damaged[at] = static_cast<std::byte>(value);
    EXPECT_THROW((void)decode<BFloat16>(stack, damaged, page.size()), CorruptData) << "byte " << at << " = " << value;
  };
  refuses(0, 3);
  refuses(0, 4);     // wider than what came
  refuses(2, 0x0c);  // the escape's code is none
  refuses(4, 0xff);  // more escapes than bytes
  EXPECT_THROW((void)decode<BFloat16>(stack, payload, page.size() + 1), CorruptData);
  EXPECT_THROW((void)decode<BFloat16>(stack, {}, page.size()), CorruptData);
}

TEST(Lossless, DamagedPayloadsAreRefusedOrATensor) {
  const Random random(seed, "damage");
  const std::vector<float> x = normal_numbers(4500, 7);
  CodecStack stack = make_codec("lossless");
  for (const auto& payload : {encode(stack, x), encode(stack, halves(x))})
    for (std::uint64_t round = 0; round < 400; ++round) {
      auto damaged = payload;
      damaged[random.below(3 * round, round % 2 == 0 ? 2048 : damaged.size())] = static_cast<std::byte>(random.below(3 * round + 1, 256));
      if (round % 5 == 0) damaged.resize(random.below(3 * round + 2, damaged.size()));
      damaged.shrink_to_fit();
      try {
        (void)decode<float>(stack, damaged, x.size());
        (void)decode<BFloat16>(stack, damaged, x.size());
      } catch (const CorruptData&) {
        continue;
      }
      EXPECT_EQ(damaged.size(), payload.size()) << "seed " << seed << ", round " << round;
    }
}

}  // namespace
}  // namespace thinwire
