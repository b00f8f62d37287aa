// labels: unit
// Signs with scales and their majority against docs/papers/gradient_compression.md, "Signs", float64, and the laws of a mean magnitude.
#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "kernels/simd/signs.h"
#include "support/codec_rounds.h"
#include "support/sent_payload.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using testing::on_every_simd_target;

constexpr std::size_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 101, 1000, 4096, 4099};

MessageKey key_of(std::int64_t step) {
  MessageKey key;
  key.tensor = hash_name("sign");
  key.step = step;
  return key;
}

using Sent = testing::SentPayload;
Sent send(const std::string& expression, const std::vector<float>& x, Shape shape) { return testing::send_payload(expression, x, shape); }
Sent send(const std::string& expression, const std::vector<float>& x) { return send(expression, x, Shape{1, static_cast<std::int64_t>(x.size())}); }
float scale_at(const Sent& sent, std::size_t at) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i) bits |= static_cast<std::uint32_t>(sent.bytes[4 * at + i]) << (8 * i);
  return std::bit_cast<float>(bits);
}

const std::vector<float> four = {3, -1, 0, 2};

TEST(SignVectors, OneBitAdamAndEfSgd) {
  const Sent adam = send("sign:scale=l2", four), ef = send("sign", four), plain = send("sign:scale=none", four);
  EXPECT_NEAR(scale_at(adam, 0), 1.870829, 1e-6);
  EXPECT_EQ(adam.bytes[4], 2);
  const double error[] = {1.129171, 0.870829, -1.870829, 0.129171};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(four[i] - adam.decoded[i], error[i], 1e-6);
  EXPECT_EQ(scale_at(ef, 0), 1.5f);
  EXPECT_EQ(ef.decoded, (std::vector<float>{1.5f, -1.5f, 1.5f, 1.5f})) << "EF-SGD's own sign(0) = 0 has no bit";
  EXPECT_EQ(plain.bytes, (std::vector<int>{2}));
  EXPECT_EQ(plain.decoded, (std::vector<float>{1, -1, 1, 1}));
}

TEST(Sign, BothZerosArePositive) { EXPECT_EQ(send("sign:scale=none", {0.0f, -0.0f, -1e-45f, 1e-45f}).decoded, (std::vector<float>{1, 1, -1, 1})); }

TEST(Sign, LinesHaveScalesOfTheirOwnAndEndWithTheirLastByte) {
  const std::vector<float> x = {1, -2, 3, -4, -4, 4};
  const Sent rows = send("sign:scope=row", x, Shape{2, 3});
  ASSERT_EQ(rows.bytes.size(), 2u * 4 + 2);
  EXPECT_EQ(rows.decoded, (std::vector<float>{2, -2, 2, -4, -4, 4}));
  EXPECT_EQ(rows.bytes[8], 2);
  EXPECT_EQ(rows.bytes[9], 3);
  EXPECT_EQ(send("sign", x, Shape{6, 1}).bytes.size(), 4u + 1) << "a tensor's bits are one stream";
  const Sent blocks = send("sign:scope=block,block=8", {1, 1, 1, 1, 1, 1, 1, 1, -5}, Shape{3, 3});
  ASSERT_EQ(blocks.bytes.size(), 2u * 4 + 2);
  EXPECT_EQ(blocks.decoded.back(), -5.0f);
  EXPECT_EQ(blocks.decoded.front(), 1.0f);
}

// In the order that signs.h promises, so to the bit.
TEST(SignVectors, PrimitivesAreTheScalarOnesOnEveryTarget) {
  on_every_simd_target([] {
    for (const std::size_t n : lengths) {
      SCOPED_TRACE(n);
      std::vector<float> x = normal_numbers(static_cast<std::int64_t>(n), n + 1);
      for (std::size_t i = 0; i < n; i += 5) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
      double sums[2][16] = {};
      std::vector<std::uint8_t> expected((n + 7) / 8, 0), bits(expected.size() + 1, 0xa5);
      for (std::size_t i = 0; i < n; ++i) {
        sums[0][i % 16] += std::fabs(x[i]);
        sums[1][i % 16] += double{x[i]} * x[i];
        if (x[i] < 0) expected[i / 8] = static_cast<std::uint8_t>(expected[i / 8] | 1 << i % 8);
      }
      const auto total = [](double* s) {
        for (std::size_t half = 8; half > 0; half /= 2)
          for (std::size_t k = 0; k < half; ++k) s[k] += s[k + half];
        return s[0];
      };
      EXPECT_EQ(simd::sum_of_magnitudes(x.data(), n), total(sums[0]));
      EXPECT_EQ(simd::sum_of_squares(x.data(), n), total(sums[1]));
      simd::pack_signs(x.data(), n, bits.data());
      EXPECT_EQ(bits.back(), 0xa5) << "wrote past the end";
      bits.pop_back();
      EXPECT_EQ(bits, expected);
      for (const bool add : {false, true}) {
        std::vector<float> out(n + 1, 0.25f);
        simd::unpack_signs(bits.data(), n, 1.5f, out.data(), add, false);
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], (x[i] < 0 ? -1.5f : 1.5f) + (add ? 0.25f : 0.0f)) << i;
        EXPECT_EQ(out[n], 0.25f);
      }
    }
  });
}

TEST(Sign, ScalesAreMeansInFloat64) {
  for (const std::int64_t columns : {1, 7, 64, 4095, 4096, 4097, 12289}) {
    const std::vector<float> x = normal_numbers(3 * columns, static_cast<std::uint64_t>(columns));
    for (const std::string scale : {"l1", "l2"}) {
      const Sent sent = send("sign:scope=row,scale=" + scale, x, Shape{3, columns});
      for (std::size_t r = 0; r < 3; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < columns; ++c) {
          const double v = x[r * static_cast<std::size_t>(columns) + static_cast<std::size_t>(c)];
          sum += scale == "l1" ? std::fabs(v) : v * v;
        }
        const double mean = sum / static_cast<double>(columns);
        EXPECT_FLOAT_EQ(scale_at(sent, r), static_cast<float>(scale == "l1" ? mean : std::sqrt(mean))) << columns;
      }
    }
  }
}

TEST(Sign, SumsDoNotDependOnTheNumberOfThreads) {
  const std::vector<float> x = normal_numbers(200000, 9);
  const int before = omp_get_max_threads();
  std::vector<Sent> sent;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    sent.push_back(send("sign:scale=l2", x));
  }
  omp_set_num_threads(before);
  EXPECT_EQ(sent[1].bytes, sent[0].bytes);
  EXPECT_EQ(sent[2].bytes, sent[0].bytes);
}

// ||x - D||^2 = ||x||^2 - ||x||_1^2 / n of the mean magnitude: the contraction that EF-SGD's proof stands on.
TEST(Sign, TheMeanMagnitudeIsAContraction) {
  const std::vector<float> x = normal_numbers(5000, 12);
  const Sent sent = send("sign", x);
  double lost = 0, square = 0, sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) lost += std::pow(double{x[i]} - sent.decoded[i], 2), square += double{x[i]} * x[i], sum += std::fabs(x[i]);
  EXPECT_NEAR(lost, square - sum * sum / 5000, 1e-5 * square);
}

TEST(Sign, WithErrorFeedbackNothingIsLost) {
  CodecStack stack = make_codec("sign+ef");
  const Shape shape{1, 100};
  std::vector<double> received(100, 0), sent(100, 0);
  double largest = 0;
  for (int step = 0; step < 400; ++step) {
    std::vector<float> x = normal_numbers(100, static_cast<std::uint64_t>(step));
    x[7] = 0;
    const std::vector<float> out = testing::send_message(stack, x, shape, key_of(step));
    for (std::size_t i = 0; i < 100; ++i) received[i] += out[i], sent[i] += x[i];
  }
  for (std::size_t i = 0; i < 100; ++i) largest = std::max(largest, std::fabs(received[i] - sent[i]));
  EXPECT_LT(largest, 40) << "what is owed stays bounded, while 400 signs of the wrong size would be owed hundreds";
  EXPECT_LT(std::fabs(received[7]), 20) << "zeros that are sent as +s are taken back";
}

/// What the rounds of `x` over all ranks give, and what they must: the majority's sign times the sum of the scales.
void expect_majority(const std::string& expression, int world, const Shape& shape, std::uint64_t seed) {
  SCOPED_TRACE(expression + ", " + std::to_string(world) + " ranks");
  auto ranks = testing::codec_of_every_rank(expression, world);
  std::vector<std::vector<float>> inputs, sums;
  std::vector<float> scales;
  const bool scaled = ranks[0].codec->traits().rounds == 2;
  for (int r = 0; r < world; ++r) {
    inputs.push_back(normal_numbers(shape.elements(), seed + static_cast<std::uint64_t>(r)));
    inputs.back()[0] = 0;                                 // all agree: +
    if (shape.elements() > 1) inputs.back()[1] = r % 2 == 0 ? -1.0f : 1.0f;  // a tie where the number of ranks is even
    double sum = 0;
    for (const float v : inputs.back()) sum += std::fabs(v);
    scales.push_back(scaled ? static_cast<float>(sum / static_cast<double>(shape.elements())) : 1.0f);
  }
  const auto out = testing::reduce_by_rounds(ranks, inputs, shape, key_of(0), &sums);
  const double scale = std::accumulate(scales.begin(), scales.end(), 0.0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    int votes = 0;
    for (const auto& x : inputs) votes += x[i] < 0 ? -1 : 1;
    ASSERT_NEAR(out[i], votes >= 0 ? scale : -scale, 1e-5 * scale) << i;
  }
  for (const auto& other : sums) ASSERT_EQ(other, out);
  std::vector<float> own(out.size());
  ranks.back().codec->as<Rounds>()->own_decoded(key_of(0), TensorView(own.data(), shape));
  for (std::size_t i = 0; i < own.size(); ++i) ASSERT_FLOAT_EQ(own[i], inputs.back()[i] < 0 ? -scales.back() : scales.back()) << i;
}

TEST(SignVote, TheMajorityDecidesAndTiesArePositive) {
  for (const char* expression : {"sign:vote=majority", "sign:vote=majority,scale=none"}) {
    for (const int world : {1, 2, 3, 4, 8}) expect_majority(expression, world, Shape{17, 31}, 100);
    for (const int world : {255, 256, 300}) expect_majority(expression, world, Shape{1, 5}, 7);
  }
}

TEST(SignVote, CountsAreAsNarrowAsTheRanksAllow) {
  CodecStack stack = make_codec("sign:vote=majority,scope=row");
  Rounds& rounds = *stack.codec->as<Rounds>();
  const auto round = [&](int r, int world) { return rounds.begin_round(r, ConstTensorView(four.data(), Shape{2, 2}), key_of(0), world); };
  EXPECT_EQ(round(0, 255).dtype, DType::u8);
  EXPECT_EQ(round(0, 255).send.size(), 4u);
  EXPECT_EQ(round(1, 255).send.size(), 8u) << "a scale of each row";
  EXPECT_EQ(round(0, 256).dtype, DType::u16);
  EXPECT_THROW((void)round(0, 65536), UsageError);
}

TEST(SignVote, IsNoSumOfPayloads) {
  EXPECT_FALSE(make_codec("sign:vote=majority").codec->traits().gather);
  for (const char* wrapper : {"ef", "loco", "ef21"}) EXPECT_THROW(make_codec(std::string("sign:vote=majority+") + wrapper), UsageError) << wrapper;
  EXPECT_EQ(make_codec("sign").codec->as<Rounds>(), nullptr);
}

TEST(SignVote, NanAndDamagedScalesAreRefused) {
  CodecStack stack = make_codec("sign:vote=majority");
  Rounds& rounds = *stack.codec->as<Rounds>();
  std::vector<float> x = four, out(4);
  const Shape shape{2, 2};
  x[2] = std::nanf("");
  EXPECT_THROW((void)rounds.begin_round(0, ConstTensorView(x.data(), shape), key_of(0), 2), NotRepresentable);
  (void)rounds.begin_round(0, ConstTensorView(four.data(), shape), key_of(0), 2);
  const Round scales = rounds.begin_round(1, ConstTensorView(four.data(), shape), key_of(0), 2);
  for (const float bad : {-1.0f, INFINITY, std::nanf("")}) {
    std::memcpy(scales.receive.data(), &bad, sizeof bad);
    EXPECT_THROW(rounds.end_rounds(key_of(0), 2, TensorView(out.data(), shape)), CorruptData) << bad;
  }
}

TEST(Sign, EndsOfF32) {
  for (const char* expression : {"sign", "sign:scale=l2", "sign:scope=row", "sign:scale=l2,scope=block"})
    for (const float big : {3.4028234e38f, 1e-45f, 0.0f})
      for (const float v : send(expression, std::vector<float>(33, -big)).decoded) EXPECT_EQ(v, -big) << expression;
}

TEST(Sign, DamagedPayloadsAreRefusedOrFinite) {
  constexpr std::uint64_t seed = 20260502;
  const Random random(seed, "damage");
  const Shape shape{5, 13};
  const std::vector<float> x = normal_numbers(shape.elements(), 3);
  for (const char* expression : {"sign", "sign:scope=row", "sign:scale=none", "sign:scope=block,block=16"}) {
    CodecStack stack = make_codec(expression);
    std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
    std::vector<float> out(x.size());
    for (std::uint64_t round = 0; round < 300; ++round) {
      stack.codec->encode(ConstTensorView(x.data(), shape), key_of(0), payload);
      payload[random.below(2 * round, payload.size())] = static_cast<std::byte>(random.below(2 * round + 1, 256));
      try {
        stack.codec->decode(payload, key_of(0), TensorView(out.data(), shape));
        for (const float v : out) ASSERT_TRUE(std::isfinite(v)) << expression << ", seed " << seed << ", round " << round;
      } catch (const CorruptData&) {
      }
    }
  }
}

TEST(Sign, BlocksThatEndWithinAByteAreRefusedWhenRead) { EXPECT_THROW((void)make_codec("sign:scope=block,block=12"), UsageError); }

}  // namespace
}  // namespace thinwire
