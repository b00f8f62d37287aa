// labels: unit
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random.h"

namespace thinwire {
namespace {

using Block = std::array<std::uint32_t, 4>;

// kat_vectors of the Random123 library, lines "philox4x32 10".
TEST(Philox, ReproducesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, SeedStreamAndIndexFillCounterAndKey) {
  const Random random(0x299f31d0a4093822ull, 0x0370734413198a2eull);
  EXPECT_EQ(random.block(0x85a308d3243f6a88ull), (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, WordsOfABlockAreItsConsecutiveNumbers) {
  const Random random(7, "weights");
  for (std::uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(random.bits32(i), random.block(i / 4)[i % 4]);
    EXPECT_EQ(random.bits64(i), std::uint64_t{random.bits32(2 * i + 1)} << 32 | random.bits32(2 * i));
  }
}

TEST(Random, NumbersDoNotDependOnTheOrderOfDrawing) {
  const Random random(7, "dropout");
  std::vector<float> forward, backward;
  for (std::uint64_t i = 0; i < 101; ++i) forward.push_back(random.uniform(i));
  for (std::uint64_t i = 101; i-- > 0;) backward.push_back(random.uniform(i));
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward, backward);
}

TEST(Random, OtherSeedsAndNamesGiveOtherNumbers) {
  EXPECT_NE(Random(1, "a").bits64(0), Random(2, "a").bits64(0));
  EXPECT_NE(Random(1, "a").bits64(0), Random(1, "b").bits64(0));
  EXPECT_NE(mix_stream(5, 0), mix_stream(5, 1));
  EXPECT_NE(mix_stream(5, 1), mix_stream(6, 0));
}

// Bounds below are 5 standard errors: a right generator fails once in two million seeds, and the seed is fixed.
TEST(Random, UniformIsFlatInMomentsAndBins) {
  const Random random(20240501, "uniform");
  constexpr int n = 200'000, bins = 64;
  double sum = 0, squares = 0;
  std::vector<double> count(bins);
  for (int i = 0; i < n; ++i) {
    const double u = random.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
    ++count[static_cast<std::size_t>(u * bins)];
  }
  const double mean = sum / n;
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / n));
  double chi2 = 0;
  for (double c : count) chi2 += (c - double{n} / bins) * (c - double{n} / bins) / (double{n} / bins);
  EXPECT_LT(chi2, (bins - 1) + 5 * std::sqrt(2.0 * (bins - 1)));
}

TEST(Random, NormalHasTheMomentsOfAStandardNormal) {
  const Random random(20240501, "normal");
  constexpr int n = 200'000;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0, last = 0;
  int beyond2 = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i));
    m1 += x;
    m2 += x * x;
    m3 += x * x * x;
    m4 += x * x * x * x;
    lag += x * last;
    last = x;
    beyond2 += std::abs(x) > 2;
  }
  EXPECT_NEAR(m1 / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(m2 / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(m3 / n, 0, 5 * std::sqrt(15.0 / n));
  EXPECT_NEAR(m4 / n, 3, 5 * std::sqrt(96.0 / n));
  EXPECT_NEAR(lag / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(static_cast<double>(beyond2) / n, std::erfc(std::sqrt(2.0)), 5 * std::sqrt(0.0455 * 0.9545 / n));
}

TEST(Random, BelowStaysBelowAndReachesEverything) {
  const Random random(3, "below");
  for (std::uint64_t bound : {1ull, 2ull, 7ull, 101ull}) {
    std::vector<int> seen(bound);
    for (std::uint64_t i = 0; i < 100 * bound; ++i) {
      const std::uint64_t x = random.below(i, bound);
      ASSERT_LT(x, bound);
      ++seen[x];
    }
    for (int count : seen) EXPECT_GT(count, 0);
  }
}

}  // namespace
}  // namespace thinwire
