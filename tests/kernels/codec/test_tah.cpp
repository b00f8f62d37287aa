// labels: unit
// TAH-Quant against its worked examples (docs/papers/low_bandwidth_pipeline.md, "TAH-Quant"), its size, which tokens it chooses, and what the transform is worth (claim C12a
// of the page).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "core/half.h"
#include "kernels/codec/registry.h"
#include "support/codec_rounds.h"
#include "support/count_allocations.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using Floats = std::vector<float>;

struct Sent {
  Floats values;
  std::vector<std::byte> payload;
};

Sent send(CodecStack& stack, const Floats& x, const Shape& shape, std::span<const std::int64_t> samples = {}) {
  MessageKey key;
  key.tensor = hash_name("boundary");
  key.samples = samples;
  Sent sent;
  sent.payload.resize(stack.codec->max_payload_bytes(shape));
  sent.payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), key, sent.payload));
  sent.values.assign(x.size(), -9.0f);
  stack.codec->decode(sent.payload, key, TensorView(sent.values.data(), shape));
  return sent;
}
Sent send(const std::string& expression, const Floats& x, const Shape& shape, std::span<const std::int64_t> samples = {}) {
  CodecStack stack = make_codec(expression);
  return send(stack, x, shape, samples);
}

std::vector<int> bytes(const Sent& sent) {
  std::vector<int> numbers;
  for (const std::byte b : sent.payload) numbers.push_back(std::to_integer<int>(b));
  return numbers;
}

// Worked example 7 of the page.
TEST(Tah, ATileWithAnOutlierIsTransformed) {
  const Floats x = {0.1f, -0.2f, 4, 0.3f};
  const Sent sent = send("tah:tile=4,low=3,high=3", x, Shape{1, 4});
  // No token of one has low bits; the tile is transformed; 1.7001953 and 0.0714111 in f16; arg max 2 in two bits; codes 6 4 0 7 in three.
  const std::uint16_t zero = to_half(1.7f).bits, scale = to_half(0.5f / 7).bits;
  EXPECT_EQ(to_float(Half{zero}), 1.7001953125f);
  EXPECT_NEAR(to_float(Half{scale}), 0.0714111f, 1e-7f);
  EXPECT_EQ(bytes(sent), (std::vector<int>{0, 0x80, zero & 255, zero >> 8, scale & 255, scale >> 8, 0x80, 0b11010000, 0b01110000}));
  const Floats expected = {0.10712f, -0.17853f, 4.00739f, 0.32135f};
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(sent.values[i], expected[i], 6e-6f) << i;

  const Sent plain = send("tah:tile=4,low=3,high=3,rotate=false", x, Shape{1, 4});
  const Floats untouched = {0.40015f, -0.19995f, 4.00073f, 0.40015f};
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(plain.values[i], untouched[i], 6e-6f) << i;
  EXPECT_EQ(plain.payload[1], std::byte{0});
  EXPECT_EQ(bytes(plain)[6], 0b00100011) << "codes 1 0 7 1";
  EXPECT_EQ(bytes(plain)[7], 0b10010000);

  EXPECT_EQ(send("tah:tile=4", {1, -2, 3, 0.5f}, Shape{1, 4}).payload[1], std::byte{0}) << "3 is less than twice 2";
  EXPECT_EQ(send("tah:tile=4", {1, -2, 4, 0.5f}, Shape{1, 4}).payload[1], std::byte{0x80}) << "4 is twice 2";
  EXPECT_EQ(send("tah:tile=4", {1, -2, 4}, Shape{1, 3}).payload[1], std::byte{0}) << "a tile that is not full";
}

// Entropies 1.279854 of (1, 2, 3, 4) and 0.329684 of (4, 0.1, 0.1, 0.1).
TEST(Tah, TokensOfLowestEntropyGetFewBitsSampleBySample) {
  const Floats even = {1, 2, 3, 4}, spiked = {4, 0.1f, 0.1f, 0.1f};
  Floats x;
  for (const int t : {0, 0, 1, 0, 0, 1, 0, 0, 0, 0}) x.insert(x.end(), (t == 1 ? spiked : even).begin(), (t == 1 ? spiked : even).end());
  EXPECT_EQ(send("tah:tile=4,share=0.8", x, Shape{10, 4}).payload[0], std::byte{0b00100000}) << "int(10 (1 - 0.8)) is 1, as in the released code; the first of two equals";
  EXPECT_EQ(send("tah:tile=4,share=0.79", x, Shape{10, 4}).payload[0], std::byte{0b00100100});
  EXPECT_EQ(send("tah:tile=4,share=0.5", x, Shape{10, 4}).payload[0], std::byte{0b11110100}) << "the spiked ones, then by their place";
  const std::vector<std::int64_t> two = {7, 8}, three = {7, 8, 9};
  const Sent by_sample = send("tah:tile=4,share=0.6", x, Shape{10, 4}, two);
  EXPECT_EQ(by_sample.payload[0], std::byte{0b10100110}) << "two of each five";
  EXPECT_EQ(by_sample.payload[1] & std::byte{0xc0}, std::byte{0});
  EXPECT_EQ(send("tah:tile=4,share=0.79", x, Shape{10, 4}, three).payload[0], std::byte{0b00100100}) << "ten rows are not three samples";
  EXPECT_EQ(send("tah:tile=4,share=0", x, Shape{10, 4}).payload[0], std::byte{0xff});
  EXPECT_EQ(send("tah:tile=4,share=1", x, Shape{10, 4}).payload[0], std::byte{0});
}

TEST(Tah, DrawnTokensAreAsManyAndOthers) {
  const Floats x = normal_numbers(200 * 64, 3);
  const auto low = [&](const std::string& expression) {
    const Sent sent = send(expression, x, Shape{200, 64});
    return std::vector<std::byte>(sent.payload.begin(), sent.payload.begin() + 25);
  };
  const auto drawn = low("tah:select=random,share=0.75"), chosen = low("tah:share=0.75");
  const auto count = [](const std::vector<std::byte>& flags) { return std::accumulate(flags.begin(), flags.end(), 0, [](int sum, std::byte b) { return sum + std::popcount(std::to_integer<unsigned>(b)); }); };
  EXPECT_EQ(count(drawn), 50);
  EXPECT_EQ(count(chosen), 50);
  EXPECT_NE(drawn, chosen);
}

TEST(Tah, TakesTheBitsOfItsFormula) {
  const std::int64_t tokens = 1000, channels = 640;
  Floats x = normal_numbers(tokens * channels, 1);
  const auto bits = [&](const Sent& sent) { return 8.0 * static_cast<double>(sent.payload.size()) / static_cast<double>(tokens * channels); };
  const double plain = 3.8 + 33.0 / 64 + 1.0 / static_cast<double>(channels);
  EXPECT_NEAR(bits(send("tah:share=0.79999", x, Shape{tokens, channels})), plain, 1e-3);
  for (std::size_t i = 0; i < x.size(); i += 64) x[i + i / 64 % 64] = 50;  // an outlier in every tile
  EXPECT_NEAR(bits(send("tah:share=0.79999", x, Shape{tokens, channels})), plain + 6.0 / 64, 1e-3);
}

// Claim C12a: tiles of normal numbers over their largest, one of them +-A; squared error without and with the transform, at 3 bits: 2.5, 7.0, 24 for A = 2, 4, 8.
TEST(Tah, TheTransformIsWorthWhatThePageDerives) {
  const std::int64_t tiles = 4000;
  for (const auto& [outlier, ratio] : {std::pair{2.0f, 2.5}, std::pair{4.0f, 7.0}, std::pair{8.0f, 24.0}}) {
    Floats x = normal_numbers(tiles * 64, 9);
    const Random random(5, "outliers");
    for (std::int64_t t = 0; t < tiles; ++t) {
      float* const tile = x.data() + t * 64;
      float largest = 0;
      for (int i = 0; i < 64; ++i) largest = std::max(largest, std::abs(tile[i]));
      for (int i = 0; i < 64; ++i) tile[i] /= largest;
      const auto n = static_cast<std::uint64_t>(t);
      tile[random.below(2 * n, 64)] = random.below(2 * n + 1, 2) == 0 ? outlier : -outlier;
    }
    const auto error = [&](const char* rotate) {
      const Sent sent = send(std::string("tah:low=3,high=3,rotate=") + rotate, x, Shape{tiles, 64});
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(sent.values[i]), 2);
      return sum;
    };
    EXPECT_NEAR(error("false") / error("true"), ratio, 0.1 * ratio) << "A = " << outlier;
  }
}

TEST(Tah, LargeValuesSaturateAndNotOnesAreRefused) {
  const Sent sent = send("tah:tile=4,rotate=false", {-1e6f, 0, 1e6f, 5}, Shape{1, 4});
  EXPECT_EQ(sent.values[0], -65504.0f);
  for (const float v : sent.values) EXPECT_TRUE(std::isfinite(v));
  Floats bad(64, 1.0f);
  bad[9] = std::nanf("");
  EXPECT_THROW(send("tah", bad, Shape{1, 64}), NotRepresentable);
  bad[9] = INFINITY;
  EXPECT_THROW(send("tah:select=random", bad, Shape{1, 64}), NotRepresentable);
  EXPECT_THROW(make_codec("tah:low=5"), UsageError);
}

TEST(Tah, SteadyStateAllocatesNothing) {
  CodecStack stack = make_codec("tah");
  const Shape shape{40, 200};
  Floats x = normal_numbers(shape.elements(), 2), out(x.size());
  x[70] = 100;
  MessageKey key;
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  const auto pass = [&] {
    const std::size_t size = stack.codec->encode(ConstTensorView(x.data(), shape), key, payload);
    stack.codec->decode(std::span(payload).first(size), key, TensorView(out.data(), shape));
  };
  pass();
  const long before = testing::allocations;
  pass();
  EXPECT_EQ(testing::allocations, before);
}

}  // namespace
}  // namespace thinwire
