// labels: unit
// bitsandbytes' dynamic 8 bits against docs/papers/activation_compression.md, "SWARM", and a search through the whole book.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "support/codec_rounds.h"
#include "support/sent_payload.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;

MessageKey key_of() {
  MessageKey key;
  key.tensor = hash_name("blockwise8");
  return key;
}

using Sent = testing::SentPayload;
Sent send(const std::vector<float>& x) { return testing::send_payload("blockwise8", x, Shape{1, static_cast<std::int64_t>(x.size())}); }

std::vector<std::byte> encode(CodecStack& stack, const std::vector<float>& x, const Shape& shape) {
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  EXPECT_EQ(stack.codec->encode(ConstTensorView(x.data(), shape), key_of(), payload), payload.size());
  return payload;
}
std::vector<float> decode(CodecStack& stack, const std::vector<std::byte>& payload, const Shape& shape) {
  std::vector<float> out(static_cast<std::size_t>(shape.elements()), -7.0f);
  stack.codec->decode(payload, key_of(), TensorView(out.data(), shape));
  return out;
}

/// What all codes mean, as the codec says.
std::vector<float> whole_book() {
  CodecStack stack = make_codec("blockwise8");
  std::vector<std::byte> payload(4 + 256);
  const float one = 1;
  std::memcpy(payload.data(), &one, sizeof one);
  for (int code = 0; code < 256; ++code) payload[static_cast<std::size_t>(4 + code)] = static_cast<std::byte>(code);
  return decode(stack, payload, Shape{256});
}

/// Nearest of all values to the f32 quotient, of two the one of smaller magnitude.
int nearest(const std::vector<float>& book, float x, float most) {
  const float y = most > 0 ? x / most : 0;
  const auto above = std::lower_bound(book.begin() + 1, book.end() - 1, y), below = above - 1;
  const double up = double{*above} - y, down = double{y} - *below;
  return static_cast<int>((up < down || (up == down && std::fabs(*above) < std::fabs(*below)) ? above : below) - book.begin());
}

TEST(Blockwise8, TheBookIsThePages) {
  const std::vector<float> book = whole_book();
  EXPECT_EQ(book[127], 0.0f);
  EXPECT_EQ(book[255], 1.0f);
  std::size_t code = 128;
  for (int i = 0; i < 7; ++i)
    for (int k = 0; k < 1 << i; ++k, ++code) {
      const double step = 0.9 / (1 << i), below = 0.1 + k * step;
      EXPECT_FLOAT_EQ(book[code], static_cast<float>((below + below + step) / 2 * std::pow(10.0, i - 6))) << code;
      EXPECT_EQ(book[254 - code], -book[code]);
    }
  EXPECT_EQ(code, 255u);
  for (std::size_t c = 1; c < 256; ++c) EXPECT_LT(book[c - 1], book[c]);
}

TEST(Blockwise8, CodesAreThePages) {
  const Sent sent = send({1, -1, 0.1f, -0.5f, 0, 3e-7f, 2e-7f});
  EXPECT_EQ(std::vector<int>(sent.bytes.begin() + 4, sent.bytes.end()), (std::vector<int>{255, 0, 190, 35, 127, 128, 127}));
  EXPECT_FLOAT_EQ(sent.decoded[1], -0.99296875f) << "the book has 1, but not -1";
}

TEST(Blockwise8, TheMiddleOfTwoValuesGoesToTheSmallerOne) {
  const std::vector<float> book = whole_book();
  std::vector<float> x = {1};
  for (std::size_t code = 0; code < 255; ++code) {
    const auto middle = static_cast<float>((double{book[code]} + book[code + 1]) / 2);
    for (const float v : {std::nextafter(middle, -2.0f), middle, std::nextafter(middle, 2.0f)}) x.push_back(v);
  }
  testing::on_every_simd_target([&] {
    const Sent sent = send(x);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(sent.bytes[4 + i], nearest(book, x[i], 1)) << x[i];
  });
}

TEST(Blockwise8, EveryCodeIsTheNearestOnEveryTarget) {
  const std::vector<float> book = whole_book();
  testing::on_every_simd_target([&] {
    for (const std::size_t n : {1u, 2u, 3u, 7u, 15u, 16u, 17u, 33u, 101u, 4095u, 4096u, 4097u, 9000u}) {
      std::vector<float> x = normal_numbers(static_cast<std::int64_t>(n), n);
      for (std::size_t i = 0; i < n; ++i) x[i] = std::ldexp(x[i], -static_cast<int>(i % 26));
      const Sent sent = send(x);
      const std::size_t blocks = (n + 4095) / 4096;
      float most = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (i % 4096 == 0) most = 0;
        for (std::size_t k = i; i % 4096 == 0 && k < std::min(n, i + 4096); ++k) most = std::max(most, std::fabs(x[k]));
        const int code = sent.bytes[4 * blocks + i];
        ASSERT_EQ(code, nearest(book, x[i], most)) << "element " << i << " of " << n;
        ASSERT_EQ(sent.decoded[i], book[static_cast<std::size_t>(code)] * most);
      }
    }
  });
}

TEST(Blockwise8, BlocksRunAcrossRows) { EXPECT_EQ(testing::send_payload("blockwise8", normal_numbers(15000, 1), Shape{3, 5000}).bytes.size(), 4u * 4 + 15000); }

TEST(Blockwise8, DecodedTensorsAreFixedPoints) {
  std::vector<float> x = normal_numbers(5000, 2);
  x[17] = 9, x[4500] = 9;  // the largest are positive: a largest negative value shrinks each time
  const Sent once = send(x), twice = send(once.decoded);
  EXPECT_EQ(once.bytes, twice.bytes);
  EXPECT_EQ(once.decoded, twice.decoded);
}

TEST(Blockwise8, EndsOfF32) {
  for (const float big : {3.4028234e38f, 1e-45f, 1e-39f, 0.0f}) {
    const std::vector<float> x = {big, -big, big / 2, 0, big / 7};
    const Sent sent = send(x);
    EXPECT_EQ(sent.decoded[0], big);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_LE(std::fabs(sent.decoded[i]), std::fabs(x[i]) * 1.1f + 1e-44f) << big;
  }
}

TEST(Blockwise8, TheReleasedFormSendsSizesAndTheBook) {
  const Shape shape{3, 3000};
  const std::vector<float> x = normal_numbers(shape.elements(), 5), book = whole_book();
  CodecStack fair = make_codec("blockwise8"), released = make_codec("blockwise8", Form::released);
  const auto ours = encode(fair, x, shape), theirs = encode(released, x, shape);
  ASSERT_EQ(theirs.size(), 16 + ours.size() + 1024);
  std::int64_t sizes[2];
  std::memcpy(sizes, theirs.data(), sizeof sizes);
  EXPECT_EQ(sizes[0], 3);
  EXPECT_EQ(sizes[1], 256);
  EXPECT_EQ(std::memcmp(theirs.data() + 16, ours.data(), 12), 0) << "scales";
  EXPECT_EQ(std::memcmp(theirs.data() + 28, book.data(), 1024), 0);
  EXPECT_EQ(std::memcmp(theirs.data() + 28 + 1024, ours.data() + 12, 9000), 0) << "codes";
  EXPECT_EQ(decode(released, theirs, shape), decode(fair, ours, shape));
}

TEST(Blockwise8, TheReleasedFormDecodesWithTheBookThatCame) {
  const Shape shape{1, 4};
  CodecStack stack = make_codec("blockwise8", Form::released);
  const auto payload = encode(stack, {4, 0, 0, 0}, shape);
  const auto with = [&](std::size_t at, auto value) {
    auto changed = payload;
    std::memcpy(changed.data() + at, &value, sizeof value);
    return changed;
  };
  EXPECT_EQ(decode(stack, with(20 + 4 * 127, 0.5f), shape), (std::vector<float>{4, 2, 2, 2}));
  for (const float bad : {1.5f, INFINITY, std::nanf("")}) EXPECT_THROW((void)decode(stack, with(20, bad), shape), CorruptData) << bad;
  EXPECT_THROW((void)decode(stack, with(0, std::int64_t{2}), shape), CorruptData);
  EXPECT_THROW((void)decode(stack, with(8, std::int64_t{255}), shape), CorruptData);
}

TEST(Blockwise8, DamagedPayloadsAreRefusedOrFinite) {
  constexpr std::uint64_t seed = 20260503;
  const Random random(seed, "damage");
  const Shape shape{5, 13};
  const std::vector<float> x = normal_numbers(shape.elements(), 3);
  for (const Form form : {Form::fair, Form::released}) {
    CodecStack stack = make_codec("blockwise8", form);
    const auto payload = encode(stack, x, shape);
    for (std::uint64_t round = 0; round < 600; ++round) {
      auto damaged = payload;
      damaged[random.below(2 * round, round % 2 == 0 ? 32 : damaged.size())] = static_cast<std::byte>(random.below(2 * round + 1, 256));
      try {
        for (const float v : decode(stack, damaged, shape)) ASSERT_TRUE(std::isfinite(v)) << "seed " << seed << ", round " << round;
      } catch (const CorruptData&) {
      }
    }
  }
  CodecStack stack = make_codec("blockwise8");
  for (const float bad : {-1.0f, INFINITY, std::nanf("")}) {
    auto damaged = encode(stack, x, shape);
    std::memcpy(damaged.data(), &bad, sizeof bad);
    EXPECT_THROW((void)decode(stack, damaged, shape), CorruptData) << bad;
  }
}

}  // namespace
}  // namespace thinwire
