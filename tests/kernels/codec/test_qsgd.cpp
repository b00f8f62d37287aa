// labels: unit
// QSGD against the numbers and laws of docs/papers/gradient_compression.md, "QSGD": levels on both sides of a value, no bias, the variance's bound, and payloads that are not
// trusted.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "support/codec_rounds.h"
#include "support/damaged_payloads.h"
#include "support/sent_payload.h"

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
  EXPECT_THROW(send_payload("qsgd", Floats(32, 3e38f), Shape{1, 32}), RuntimeFailure);
  EXPECT_THROW(send_payload("qsgd", {1, NAN}, Shape{1, 2}), RuntimeFailure);
}

TEST(Qsgd, DamagedMessagesAreRefusedOrHarmless) {
  for (const char* expression : {"qsgd", "qsgd:levels=3,bucket=32"}) testing::expect_damage_is_refused_or_harmless(expression, normal_numbers(33 * 75, 5), Shape{33, 75}, 6);
}

}  // namespace
}  // namespace thinwire
