// labels: unit
// QSGD against the numbers and laws of docs/papers/gradient_compression.md, "QSGD": levels on both sides of a value, no bias, the variance's bound, and payloads that are not
// trusted.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include <omp.h>

#include "core/error.h"
#include "core/random.h"
#include "kernels/codec/payload/message_key.h"
#include "support/codec_rounds.h"
#include "support/damaged_payloads.h"
#include "support/sent_payload.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using testing::send_payload;
using Floats = std::vector<float>;

int level_of(const testing::SentPayload& sent, std::size_t norms, std::size_t i) { return static_cast<std::int8_t>(sent.bytes[4 * norms + i]); }

// s = 64, norm 5: levels 38.4 and 51.2.
TEST(Qsgd, DrawsOneOfTheTwoLevelsBesideAValue) {
  const Floats x = {3, -4, 0, 0};
  bool low = false, high = false;
  for (int step = 0; step < 40; ++step) {
    const auto sent = send_payload("qsgd:levels=64", x, Shape{1, 4}, step);
    ASSERT_EQ(sent.bytes.size(), 4u + 4u);
    EXPECT_TRUE(level_of(sent, 1, 0) == 38 || level_of(sent, 1, 0) == 39);
    EXPECT_TRUE(level_of(sent, 1, 1) == -51 || level_of(sent, 1, 1) == -52);
    EXPECT_EQ(level_of(sent, 1, 2), 0);
    EXPECT_EQ(sent.decoded[0], static_cast<float>(level_of(sent, 1, 0)) * 5 / 64);
    low = low || level_of(sent, 1, 0) == 38, high = high || level_of(sent, 1, 0) == 39;
  }
  EXPECT_TRUE(low && high);
}

// The formula of qsgd.cpp one element after the other, with the draws of the generator one by one.
testing::SentPayload by_elements(const Floats& x, const Shape& shape, std::size_t bucket, float levels) {
  MessageKey key;
  key.tensor = hash_name("payload");  // as send_payload has it
  const Random random(0x71736764ull, key.rounding_stream());
  const auto columns = static_cast<std::size_t>(shape.columns());
  testing::SentPayload sent;
  std::vector<int> codes;
  for (std::size_t row = 0; row < x.size(); row += columns)
    for (std::size_t begin = row; begin < row + columns; begin += bucket) {
      const std::size_t end = std::min(begin + bucket, row + columns);
      double squares = 0;
      for (std::size_t i = begin; i < end; ++i) squares += double{x[i]} * x[i];  // small integers: exact in any order
      const auto norm = static_cast<float>(std::sqrt(squares));
      std::uint8_t bytes[4];
      std::memcpy(bytes, &norm, 4);
      sent.bytes.insert(sent.bytes.end(), bytes, bytes + 4);
      for (std::size_t i = begin; i < end; ++i) {
        const float y = std::fabs(x[i]) / (norm > 0 ? norm : 1) * levels, whole = std::floor(y);
        const float level = std::min(levels, whole + (random.uniform(i) < y - whole ? 1.0f : 0.0f)), signed_level = x[i] < 0 ? -level : level;
        codes.push_back(static_cast<std::uint8_t>(static_cast<std::int8_t>(signed_level)));
        sent.decoded.push_back(norm / levels * signed_level);
      }
    }
  sent.bytes.insert(sent.bytes.end(), codes.begin(), codes.end());
  return sent;
}

TEST(Qsgd, IsTheFormulaToTheBitOnEveryTargetWithAnyThreads) {
  const int before = omp_get_max_threads();
  for (const int levels : {3, 127})
    for (const int bucket : {16, 128, 4096})
      for (const Shape& shape : {Shape{1, 1}, Shape{3, 7}, Shape{5, 1003}, Shape{41, 1600}, Shape{2, 9001}}) {
        Floats x = normal_numbers(shape.elements(), static_cast<std::uint64_t>(levels));
        for (float& v : x) v = std::nearbyint(100 * v);
        const std::string expression = "qsgd:levels=" + std::to_string(levels) + ",bucket=" + std::to_string(bucket);
        SCOPED_TRACE(expression + " " + shape.to_string());
        const testing::SentPayload wanted = by_elements(x, shape, static_cast<std::size_t>(bucket), static_cast<float>(levels));
        for (const int threads : {1, 3}) {
          omp_set_num_threads(threads);
          testing::on_every_simd_target([&] {
            const auto sent = send_payload(expression, x, shape);
            EXPECT_EQ(sent.bytes, wanted.bytes);
            EXPECT_EQ(sent.decoded, wanted.decoded);
          });
        }
      }
  omp_set_num_threads(before);
}

TEST(Qsgd, HasNoBiasAndTheVarianceOfItsFractions) {
  const Floats x = normal_numbers(32, 3);
  constexpr int messages = 4000;
  double norm = 0, expected = 0, seen = 0;
  for (const float v : x) norm += double{v} * v;
  norm = std::sqrt(norm);
  std::vector<double> sum(x.size(), 0.0), variance(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double y = 4 * std::abs(double{x[i]}) / norm, fraction = y - std::floor(y);
    variance[i] = fraction * (1 - fraction) * norm * norm / 16;
    expected += variance[i];
  }
  for (int step = 0; step < messages; ++step) {
    const Floats decoded = send_payload("qsgd:levels=4", x, Shape{1, 32}, step).decoded;
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += decoded[i], seen += std::pow(double{decoded[i]} - x[i], 2) / messages;
  }
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(sum[i] / messages, x[i], 5 * std::sqrt(variance[i] / messages) + 1e-6) << i;
  EXPECT_NEAR(seen, expected, 0.1 * expected);
  EXPECT_LT(seen, std::min(32.0 / 16, std::sqrt(32.0) / 4) * norm * norm);
}

TEST(Qsgd, LargestElementsAndZerosAreExact) {
  Floats x(40, 0.0f);
  x[7] = -0.1f;  // alone in its bucket: of all levels the last
  x[35] = 3e38f;
  const auto sent = send_payload("qsgd:bucket=16", x, Shape{2, 20});
  EXPECT_EQ(sent.bytes.size(), 4u * 4u + 40u);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_FLOAT_EQ(sent.decoded[i], x[i]) << i;
}

TEST(Qsgd, RefusesWhatItCannotSend) {
  EXPECT_THROW(make_codec("qsgd:bucket=24"), UsageError);
  EXPECT_THROW(make_codec("qsgd:levels=128"), UsageError);
  EXPECT_THROW(send_payload("qsgd", Floats(32, 3e38f), Shape{1, 32}), NotRepresentable);
  EXPECT_THROW(send_payload("qsgd", {1, NAN}, Shape{1, 2}), NotRepresentable);
}

TEST(Qsgd, DamagedMessagesAreRefusedOrHarmless) {
  for (const char* expression : {"qsgd", "qsgd:levels=3,bucket=32"}) testing::expect_damage_is_refused_or_harmless(expression, normal_numbers(33 * 75, 5), Shape{33, 75}, 6);
}

}  // namespace
}  // namespace thinwire
