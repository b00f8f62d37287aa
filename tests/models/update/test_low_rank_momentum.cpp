// labels: unit
// Dion's arithmetic on one matrix: the worked examples of docs/papers/low_communication.md, "Worked
// examples"; blocks add up to the whole; ranks that send factors are one rank with the mean gradient; the
// guard for momentum that is zero, ours and the released one.
#include <gtest/gtest.h>

#include <cmath>

#include "models/layout/parameter.h"
#include "models/update/policies/low_rank_momentum.h"
#include "support/codec_rounds.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using Doubles = std::vector<double>;

/// Ranks of one process, whose means are taken by hand.
struct Ranks {
  std::vector<LowRankMomentum<double>> of;
  Doubles w;  ///< each rank has the same, kept once

  Ranks(int ranks, const Shape& shape, std::int64_t rank, double mu, bool released = false)
      : w(static_cast<std::size_t>(shape.elements()), 0.0) {
    for (int r = 0; r < ranks; ++r)
      of.emplace_back(ParameterLayout::whole("layer0.w", shape), rank, mu, 7, released);
  }
  static void mean(std::vector<Doubles>& all) {
    for (std::size_t i = 0; i < all[0].size(); ++i) {
      double sum = 0;
      for (const Doubles& one : all) sum += one[i];
      all[0][i] = sum / static_cast<double>(all.size());
    }
  }
  /// Weights of every rank; P and S are left in these.
  Doubles p, s;
  std::vector<Doubles> step(const std::vector<Doubles>& gradients, double learning_rate, double factor,
                            double decay = 0) {
    std::vector<Doubles> left, right, moved;
    for (std::size_t r = 0; r < of.size(); ++r) {
      of[r].add(gradients[r].data());
      of[r].project(left.emplace_back(static_cast<std::size_t>(of[r].long_side() * of[r].rank())).data());
    }
    mean(left);
    p = left[0];
    of[0].orthonormalise(p.data());
    for (LowRankMomentum<double>& one : of)
      one.back(p.data(), right.emplace_back(static_cast<std::size_t>(one.short_side() * one.rank())).data());
    mean(right);
    s = right[0];
    for (LowRankMomentum<double>& one : of) {
      moved.push_back(w);
      one.finish(p.data(), s.data(), learning_rate, factor, decay, moved.back().data());
    }
    w = moved[0];
    return moved;
  }
};

void near(std::span<const double> built, const Doubles& expected, const char* what) {
  ASSERT_EQ(built.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(built[i], expected[i], 1e-6) << what << " " << i;
}

TEST(LowRankMomentum, FollowsThePagesExample) {
  Ranks one(1, {2, 2}, 1, 0.95);
  const std::span<double> q = one.of[0].right_factor().as<double>();
  q[0] = 1, q[1] = 0;
  one.step({{1, 2, 3, 4}}, 0.1, 1);
  near(one.p, {.316228, .948683}, "P");
  near(one.s, {3.162278, 4.427189}, "S");
  near(one.of[0].momentum().as<double>(), {.95, 1.93, 2.85, 3.79}, "M");
  near(q, {.581238, .813733}, "Q");
  near(one.w, {-.018380, -.025733, -.055141, -.077198}, "W");
  one.step({{1, 2, 3, 4}}, 0.1, 1);
  near(one.p, {.406361, .913713}, "P");
  near(q, {.575805, .817587}, "Q");
  near(one.w, {-.041779, -.058956, -.107753, -.151901}, "W");
}

TEST(LowRankMomentum, KeepsOnEachRankWhatThePageSays) {
  Ranks two(2, {2, 2}, 1, 0.95);
  for (LowRankMomentum<double>& rank : two.of)
    rank.right_factor().as<double>()[0] = 1, rank.right_factor().as<double>()[1] = 0;
  two.step({{1, 0, 2, 1}, {1, 4, 4, 7}}, 0.1, 1);
  near(two.p, {.316228, .948683}, "P");
  near(two.s, {3.162278, 4.427189}, "S");
  near(two.of[0].momentum().as<double>(), {.95, -.07, 1.85, .79}, "M of rank 0");
  near(two.of[1].momentum().as<double>(), {.95, 3.93, 3.85, 6.79}, "M of rank 1");
}

Doubles drawn(std::int64_t count, std::uint64_t seed) {
  const std::vector<float> values = normal_numbers(count, seed);
  return {values.begin(), values.end()};
}

// Tall, wide and square; what four ranks send as factors against one rank with the mean gradient.
TEST(LowRankMomentum, ManyRanksAreOneWithTheMeanGradient) {
  for (const Shape& shape : {Shape{24, 10}, Shape{10, 24}, Shape{16, 16}}) {
    Ranks four(4, shape, 3, 0.9), one(1, shape, 3, 0.9);
    for (std::uint64_t step = 0; step < 50; ++step) {
      std::vector<Doubles> gradients;
      for (std::uint64_t r = 0; r < 4; ++r) gradients.push_back(drawn(shape.elements(), 10 * step + r));
      std::vector<Doubles> mean = gradients;
      Ranks::mean(mean);
      for (const Doubles& w : four.step(gradients, 0.02, 1.5, 0.1))
        ASSERT_EQ(w, four.w) << "equal bits on all ranks";
      one.step({mean[0]}, 0.02, 1.5, 0.1);
    }
    for (std::size_t i = 0; i < one.w.size(); ++i) {
      EXPECT_NEAR(four.w[i], one.w[i], 1e-10);
      double mean = 0;
      for (LowRankMomentum<double>& rank : four.of) mean += rank.momentum().as<double>()[i] / 4;
      EXPECT_NEAR(mean, one.of[0].momentum().as<double>()[i], 1e-10);
    }
  }
}

// A step takes what it says: M + what was given back is what was there, and the step has singular values
// of 1.
TEST(LowRankMomentum, TakesFromTheMomentumWhatItsStepIsMadeOf) {
  Ranks one(1, {12, 8}, 3, 0.9);
  const Doubles g = drawn(96, 5);
  one.step({g}, 1, 1);
  const std::span<double> m = one.of[0].momentum().as<double>();
  for (std::size_t i = 0; i < 12; ++i)
    for (std::size_t j = 0; j < 8; ++j) {
      double taken = 0;
      for (std::size_t k = 0; k < 3; ++k) taken += one.p[3 * i + k] * one.s[3 * j + k];
      EXPECT_NEAR(m[8 * i + j] + (1 - 0.9) * taken, g[8 * i + j], 1e-12);
    }
}

// docs/papers/low_communication.md, "Defects of the released code" 12: a rank whose own momentum is zero
// drops the step that all take.
TEST(LowRankMomentum, ARankWithoutMomentumMovesWithTheOthers) {
  for (const bool released : {false, true}) {
    Ranks two(2, {6, 4}, 2, 0.95, released);
    const std::vector<Doubles> moved = two.step({drawn(24, 1), Doubles(24, 0.0)}, 0.1, 1);
    EXPECT_EQ(moved[0] == moved[1], !released);
    EXPECT_NE(moved[0], Doubles(24, 0.0));
  }
}

TEST(LowRankMomentum, WithoutAnyMomentumKeepsItsDirections) {
  Ranks one(1, {6, 4}, 2, 0.95);
  const std::span<double> q = one.of[0].right_factor().as<double>();
  const Doubles before(q.begin(), q.end());
  one.step({Doubles(24, 0.0)}, 0.1, 1);
  EXPECT_EQ(Doubles(q.begin(), q.end()), before);
  for (const double w : one.w) EXPECT_EQ(w, 0);
  one.step({drawn(24, 3)}, 0.1, 1);
  EXPECT_NE(one.w, Doubles(24, 0.0)) << "and moves when there is some";
}

TEST(LowRankMomentum, FactorsPayWhereTheyAreFewerNumbers) {
  EXPECT_EQ(rank_of_fraction({128, 512}, 0.25), 32);
  EXPECT_EQ(rank_of_fraction({10, 3}, 0.25), 1);
  EXPECT_TRUE(pays_as_factors({128, 128}, 32));
  EXPECT_FALSE(pays_as_factors({128, 128}, 64)) << "half the rank of a square matrix is as many numbers";
  EXPECT_TRUE(pays_as_factors({128, 512}, 64));
  EXPECT_FALSE(pays_as_factors({128, 512}, 128));
}

}  // namespace
}  // namespace thinwire
