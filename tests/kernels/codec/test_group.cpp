// labels: unit
// Integers with a scale per group against the vectors of docs/papers/sharded_compression.md and gradient_compression.md, "Worked examples", and the laws of stochastic
// rounding.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "support/codec_rounds.h"
#include "support/reference_codecs.h"
#include "support/sent_payload.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;

MessageKey key_of(std::int64_t step) {
  MessageKey key;
  key.tensor = hash_name("group");
  key.step = step;
  return key;
}

using Sent = testing::SentPayload;
Sent send(const std::string& expression, const std::vector<float>& x, Shape shape, std::int64_t step = 0) { return testing::send_payload(expression, x, shape, step); }
Sent send(const std::string& expression, const std::vector<float>& x) { return send(expression, x, Shape{1, static_cast<std::int64_t>(x.size())}); }
std::vector<int> after(const std::vector<int>& bytes, std::size_t count) { return {bytes.begin() + static_cast<std::ptrdiff_t>(count), bytes.end()}; }

const std::vector<float> eight = {0.875f, -0.875f, 0.4375f, 0.0625f, 0.125f, -0.3125f, 0, 0.8125f};

TEST(GroupVectors, Sdp4BitsCodesAndBytes) {
  const Sent sent = send("group:bits=4", eight);  // s = 8: codes 7 -7 4 0 1 -2 0 6
  EXPECT_EQ(after(sent.bytes, 4), (std::vector<int>{0x79, 0x40, 0x1e, 0x06}));
  EXPECT_EQ(sent.decoded, (std::vector<float>{0.875f, -0.875f, 0.5f, 0, 0.125f, -0.25f, 0, 0.75f}));
  EXPECT_EQ(after(send("group:bits=4,order=low", eight).bytes, 4), (std::vector<int>{0x97, 0x04, 0xe1, 0x60}));
}

TEST(GroupVectors, ZeroPlusPlusSaturatesOneStepLow) {
  const std::vector<float> x = {1, -1, 0.5f, 0.25f, 3 / 256.0f, 1 / 256.0f, -1 / 256.0f, 5 / 256.0f};
  EXPECT_EQ(after(send("group:bits=8,range=full", x).bytes, 4), (std::vector<int>{127, 128, 64, 32, 2, 0, 0, 2}));
  const std::vector<float> y = {1, -1, 0.5f, -0.5f, 0.25f, 0.125f, 0.0625f, -0.0625f, 0.1875f, 0};
  EXPECT_EQ(after(send("group:bits=4,range=full", y).bytes, 4), (std::vector<int>{0x78, 0x4c, 0x21, 0x00, 0x20}));
  EXPECT_EQ(send("group:bits=4,range=affine", {0, 3, 1, 2.25f}).decoded, (std::vector<float>{0, 2.8125f, 0.9375f, 2.25f}));
}

TEST(GroupVectors, QuickReducesExtremeIsExactWhateverItsSign) {
  const Sent low = send("group:bits=4,range=extreme", {1, -3, 2, 0.5f}), high = send("group:bits=4,range=extreme", {1, 3, -2, 0.5f});
  EXPECT_EQ(low.decoded, (std::vector<float>{1.125f, -3, 1.875f, 0.375f}));
  EXPECT_EQ(high.decoded, (std::vector<float>{1.125f, 3, -1.875f, 0.375f}));
  // The released bytes are those codes plus 8: 11 0 13 9 and 5 0 13 7.
  EXPECT_EQ(after(low.bytes, 4), (std::vector<int>{0x38, 0x51}));
  EXPECT_EQ(after(high.bytes, 4), (std::vector<int>{0xd8, 0x5f}));
}

TEST(Group, MinmaxHasBothEndsAmongItsCodes) {
  const Sent sent = send("group:bits=2,range=minmax", {-1, 2, 0.1f, 0.9f});
  EXPECT_EQ(sent.decoded, (std::vector<float>{-1, 2, 0, 1}));
  const std::vector<float> flat(33, 2.5f);
  EXPECT_EQ(send("group:bits=3,range=minmax", flat).decoded, flat) << "a step of 0";
  EXPECT_EQ(send("group:bits=1,range=minmax", {-3, 5, 4, -2}).decoded, (std::vector<float>{-3, 5, 5, -3}));
}

TEST(Group, RelativeErrorsOfNormalNumbersAreThePages) {
  const std::vector<float> x = normal_numbers(1 << 18, 4);
  const auto error = [&](const std::string& expression) {
    const Sent sent = send(expression, x, Shape{256, 1024});
    double lost = 0, all = 0;
    for (std::size_t i = 0; i < x.size(); ++i) lost += std::pow(double{sent.decoded[i]} - x[i], 2), all += double{x[i]} * x[i];
    return std::sqrt(lost / all);
  };
  EXPECT_NEAR(error("group:bits=4,round=stochastic"), 0.167, 0.004);
  EXPECT_NEAR(error("group:bits=8"), 0.0063, 0.0008);
  EXPECT_LT(error("group:bits=4"), 0.75 * error("group:bits=4,round=stochastic"));
}

TEST(Group, StochasticRoundingHasNoBiasAndTheVarianceOfItsFraction) {
  const std::vector<float> x = {7, 0.25f, -0.25f, 2.5f, -3.75f, 6.9f, 0, -6.5f};  // step 1
  constexpr int messages = 4000;
  std::vector<double> mean(x.size(), 0), square(x.size(), 0);
  for (int m = 0; m < messages; ++m) {
    const Sent sent = send("group:bits=4,round=stochastic", x, Shape{1, 8}, m);
    for (std::size_t i = 0; i < x.size(); ++i) mean[i] += sent.decoded[i] / messages, square[i] += std::pow(double{sent.decoded[i]} - x[i], 2) / messages;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double fraction = x[i] - std::floor(x[i]), variance = fraction * (1 - fraction);
    EXPECT_NEAR(mean[i], x[i], 5 * std::sqrt(variance / messages) + 1e-6) << i;
    EXPECT_NEAR(square[i], variance, 0.08 * variance + 1e-6) << i;
  }
}

TEST(Group, DrawsAreTheElementsOwn) {
  const std::vector<float> x = normal_numbers(5 * 4133, 8);
  const Sent once = send("group:bits=4,round=stochastic", x, Shape{5, 4133}), again = send("group:bits=4,round=stochastic", x, Shape{5, 4133});
  EXPECT_EQ(once.bytes, again.bytes);
  EXPECT_NE(once.bytes, send("group:bits=4,round=stochastic", x, Shape{5, 4133}, 1).bytes) << "another step, other draws";
}

TEST(Group, VectorsAgreeWithScalarsAtEverySizeAndWidth) {
  for (int bits = 2; bits <= 8; ++bits)
    for (const std::int64_t columns : {1, 3, 7, 16, 17, 31, 32, 33, 63, 65, 127, 129, 4095, 4097, 8200}) {
      const std::vector<float> x = normal_numbers(static_cast<std::size_t>(2 * columns), static_cast<std::uint64_t>(columns + bits));
      const std::string expression = "group:group=32,bits=" + std::to_string(bits);
      const Sent sent = send(expression, x, Shape{2, columns});
      const float levels = static_cast<float>((1 << (bits - 1)) - 1);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t row = i / static_cast<std::size_t>(columns) * static_cast<std::size_t>(columns), begin = row + (i - row) / 32 * 32;
        float most = 0;
        for (std::size_t k = begin; k < std::min(begin + 32, row + static_cast<std::size_t>(columns)); ++k) most = std::max(most, std::fabs(x[k]));
        const float step = most / levels, factor = 1 / step;
        ASSERT_EQ(sent.decoded[i], std::nearbyint(std::clamp(x[i] * factor, -levels, levels)) * step) << expression << " of " << columns << ", element " << i;
      }
    }
}

TEST(Group, DecodingRoundsTheProductBeforeTheOffsetIsAddedOnEveryTarget) {
  constexpr std::size_t size = 8;
  testing::on_every_simd_target([] {
    const std::vector<float> x = normal_numbers(3 * 77, 5);
    for (const char* expression : {"group:bits=4,range=affine,group=32", "group:bits=8,range=minmax,group=32"}) {
      const Sent sent = send(expression, x, Shape{3, 77});
      const bool bytes = sent.bytes.size() > 3 * 77;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t row = i / 77, column = i % 77;
        std::array<float, 2> scale{};
        const std::size_t scale_at = (row * 3 + column / 32) * size;
        std::array<std::uint8_t, size> raw{};
        for (std::size_t b = 0; b < size; ++b) raw[b] = static_cast<std::uint8_t>(sent.bytes[scale_at + b]);
        std::memcpy(scale.data(), raw.data(), size);
        const int byte = sent.bytes[9 * size + (bytes ? i : row * 39 + column / 2)];
        const int code = bytes ? byte : column % 2 == 0 ? byte >> 4 : byte & 15, half = bytes ? 128 : 8;
        const volatile float product = static_cast<float>((code ^ half) - half) * scale[0];
        ASSERT_EQ(sent.decoded[i], product + scale[1]) << expression << ", element " << i;
      }
    }
  });
}

TEST(Group, ScalesTravelInTheTypeThatIsAsked) {
  EXPECT_EQ(send("group:bits=8,scale=f16", eight).bytes.size(), 2u + 8);
  EXPECT_EQ(send("group:bits=8,scale=bf16,range=affine", eight).bytes.size(), 4u + 8);
  for (const char* type : {"f16", "bf16"})
    for (const float v : send(std::string("group:bits=8,scale=") + type, eight).decoded) EXPECT_LE(std::fabs(v), 0.88f);
  EXPECT_THROW((void)send("group:scale=f16", {1e8f, 0}), NotRepresentable);
}

TEST(Group, EndsOfF32AndDamage) {
  for (const char* expression : {"group", "group:range=full,bits=8", "group:range=affine,bits=2", "group:range=minmax,bits=8", "group:round=stochastic"})
    for (const float big : {2.9e38f, 1e-45f, 1e-39f, 0.0f})
      for (const float v : send(expression, {big, -big, big / 2, 0, big / 7}).decoded) EXPECT_TRUE(std::isfinite(v)) << expression << " " << big;
  CodecStack stack = make_codec("group:bits=8");
  const Shape shape{1, 8};
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  std::vector<float> out(8);
  for (const int high_byte : {0x80, 0x7f, 0xff}) {  // negative, infinite or NaN with the bits below
    stack.codec->encode(ConstTensorView(eight.data(), shape), key_of(0), payload);
    payload[3] = static_cast<std::byte>(high_byte), payload[2] = static_cast<std::byte>(0x80 | static_cast<int>(payload[2]));
    EXPECT_THROW(stack.codec->decode(payload, key_of(0), TensorView(out.data(), shape)), CorruptData) << high_byte;
  }
}

// Symmetric codes leave out the lowest that their bits can hold; a payload need not.
TEST(Group, AStepThatMakesTheLowestCodeInfiniteIsRefusedOnBothEnds) {
  const Shape shape{1, 8};
  for (const char* expression : {"group:bits=4", "group:bits=4,range=full"}) {
    CodecStack stack = make_codec(expression);
    std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape), std::byte{0x88});
    std::vector<float> out(8);
    for (const float step : {4.5e37f, 4e37f}) {  // -8 of it are -3.6e38 and -3.2e38; the last number is 3.4e38
      std::memcpy(payload.data(), &step, sizeof step);
      if (step == 4e37f)
        stack.codec->decode(payload, key_of(0), TensorView(out.data(), shape));
      else
        EXPECT_THROW(stack.codec->decode(payload, key_of(0), TensorView(out.data(), shape)), CorruptData) << expression;
    }
    EXPECT_EQ(out, std::vector<float>(8, -3.2e38f)) << expression;
  }
  EXPECT_THROW((void)send("group:bits=4", {3e38f, 0}), NotRepresentable) << "its step is 4.3e37";
  EXPECT_NO_THROW((void)send("group:bits=4", {2.9e38f, 0}));
}

TEST(Group, WhatCannotBeIsRefusedWhenRead) {
  EXPECT_THROW((void)make_codec("group:group=40"), UsageError);
  EXPECT_THROW((void)make_codec("group:bits=1"), UsageError);
  EXPECT_THROW((void)make_codec("group:bits=8,order=low"), UsageError);
  EXPECT_THROW((void)make_codec("group:group=16"), UsageError);
}

}  // namespace
}  // namespace thinwire
