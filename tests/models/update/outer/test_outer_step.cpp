// labels: unit
// The arithmetic of outer steps and the turns of fragments, against the published vectors (docs/papers/low_communication.md, "Worked examples") and a closed form.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "models/update/outer/fragment_schedule.h"
#include "models/update/outer/outer_step.h"

namespace thinwire {
namespace {

TEST(OuterStep, FollowsTheWorkedExample) {
  const OuterStep step{.rate = 0.7, .momentum = 0.9, .nesterov = true};
  const std::vector<double> moved = {0.25, 0.1, -0.05}, momentum = {0.25, 0.325, 0.2425}, weights = {0.6675, 0.39275, 0.274975};
  double u = 0, w = 1;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    double d = moved[i];
    outer_step<double>(step, 1, &d, &u, &w);
    EXPECT_NEAR(u, momentum[i], 1e-15);
    EXPECT_NEAR(w, weights[i], 1e-15);
  }
}

// Under another rate in the second step: the rate is no part of the momentum, which with rate d in it would give .45925.
TEST(OuterStep, TheRateStandsOutsideOfTheMomentum) {
  double u = 0, w = 1, d = 0.25;
  outer_step<double>({0.7, 0.9, true}, 1, &d, &u, &w);
  d = 0.1;
  outer_step<double>({0.35, 0.9, true}, 1, &d, &u, &w);
  EXPECT_NEAR(w, 0.530125, 1e-15);
}

TEST(OuterStep, TheRateActsOnce) {
  double w = 1, d = 0.25, u = 0;
  outer_step<double>({0.8, 0.9, true}, 1, &d, &u, &w);
  EXPECT_NEAR(1 - w, 0.38, 1e-15) << "applied twice it would be .304";
}

TEST(OuterStep, WithoutMomentumAtRateOneItIsTheMeanOfTheWeights) {
  std::vector<float> global = {1, -2, 3}, d(3);
  const std::vector<float> local = {0.5F, -2.5F, 3.25F};
  pseudo_gradient<float>(3, global.data(), local.data(), d.data());
  outer_step<float>({}, 3, d.data(), nullptr, global.data());
  EXPECT_EQ(global, local);
}

TEST(OuterStep, MixesWhatHappenedMeanwhile) {
  const double global = 0.6675;
  double local = 0.5;
  take_over<double>(0.25, 1, &global, &local);
  EXPECT_NEAR(local, 0.625625, 1e-15);
  take_over<double>(0, 1, &global, &local);
  EXPECT_EQ(local, global);
}

// Two replicas on (a/2) (w - b)^2 with gradient descent: H steps multiply the distance from b by q = (1 - eta a)^H, so the mean movement is that of one line, and Nesterov's recursion is written out.
TEST(OuterStep, TwoReplicasOnQuadraticsFollowTheClosedForm) {
  constexpr double eta = 0.1, rate = 0.7, m = 0.9;
  constexpr int steps = 5, rounds = 12;
  const double a[2] = {1.0, 2.0}, b[2] = {3.0, -1.0};
  double g = 0.5, u = 0, expected_g = 0.5, expected_u = 0;
  for (int round = 0; round < rounds; ++round) {
    double mean = 0;
    for (int r = 0; r < 2; ++r) {
      double w = 0, d = 0;
      take_over<double>(0, 1, &g, &w);
      for (int s = 0; s < steps; ++s) w -= eta * a[r] * (w - b[r]);
      pseudo_gradient<double>(1, &g, &w, &d);
      mean += d / 2;
    }
    outer_step<double>({rate, m, true}, 1, &mean, &u, &g);
    const double q0 = std::pow(1 - eta * a[0], steps), q1 = std::pow(1 - eta * a[1], steps);
    const double moved = ((1 - q0) * (expected_g - b[0]) + (1 - q1) * (expected_g - b[1])) / 2;
    expected_u = m * expected_u + moved;
    expected_g -= rate * (moved + m * expected_u);
    EXPECT_NEAR(g, expected_g, 1e-13) << round;
    EXPECT_NEAR(u, expected_u, 1e-13) << round;
  }
}

TEST(FragmentSchedule, FollowsTheWorkedExample) {
  const FragmentSchedule schedule(6, 3, 1);
  const std::vector<int> begins = {-1, 0, -1, 1, -1, 2, -1, 0, -1}, ends = {-1, -1, 0, -1, 1, -1, 2, -1, 0};
  for (std::int64_t done = 0; done < 9; ++done) {
    EXPECT_EQ(schedule.begins(done), begins[static_cast<std::size_t>(done)]) << done;
    EXPECT_EQ(schedule.ends(done), ends[static_cast<std::size_t>(done)]) << done;
    EXPECT_EQ(schedule.under_way(done), begins[static_cast<std::size_t>(done)]) << "an overlap of one step is over after the next";
  }
}

TEST(FragmentSchedule, EveryFragmentTravelsOnceInEveryRoundAndNoTwoAtOnce) {
  for (const auto& [steps, fragments, overlap] : {std::tuple<int, int, int>{12, 3, 0}, {12, 3, 2}, {12, 3, 3}, {5, 1, 0}, {5, 1, 4}, {8, 8, 0}}) {
    const FragmentSchedule schedule(steps, fragments, overlap);
    int under_way = -1;
    std::vector<int> times(static_cast<std::size_t>(fragments));
    for (std::int64_t done = 1; done <= 3 * steps; ++done) {
      if (const int f = schedule.begins(done); f >= 0) {
        EXPECT_EQ(under_way, -1);
        under_way = f;
      }
      if (const int f = schedule.ends(done); f >= 0) {
        EXPECT_EQ(under_way, f);
        ++times[static_cast<std::size_t>(f)];
        under_way = -1;
      }
      EXPECT_EQ(schedule.under_way(done), under_way) << done;
    }
    for (const int n : times) EXPECT_EQ(n, 3);
  }
}

TEST(FragmentSchedule, RefusesTurnsOfUnequalLengthAndTwoFragmentsAtOnce) {
  try {
    (void)FragmentSchedule(4, 3, 0);
    ADD_FAILURE() << "4 steps in 3 turns";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("choose inner_steps=6 or fragments=2"), std::string::npos) << error.what();
  }
  EXPECT_THROW(FragmentSchedule(10, 3, 0), UsageError);
  EXPECT_THROW(FragmentSchedule(12, 3, 4), UsageError);
  EXPECT_NO_THROW(FragmentSchedule(12, 3, 3));
}

TEST(FragmentSchedule, SharesLayersOutInBlocksOrStrided) {
  const auto shared = [](FragmentLayout layout) {
    std::vector<int> list;
    for (int unit = -1; unit <= 6; ++unit) list.push_back(fragment_of(unit, 6, 3, layout));
    return list;
  };
  EXPECT_EQ(shared(FragmentLayout::blocks), (std::vector<int>{0, 0, 0, 1, 1, 2, 2, 0}));
  EXPECT_EQ(shared(FragmentLayout::strided), (std::vector<int>{0, 0, 1, 2, 0, 1, 2, 0}));
}

}  // namespace
}  // namespace thinwire
