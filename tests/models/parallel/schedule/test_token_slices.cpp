// labels: unit
// timeout: 60
// The dynamic program that cuts sequences for a token-sliced pipeline: its published vectors, and equality with trying every cut.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "core/error.h"
#include "core/random.h"
#include "models/cost_model/slice_times.h"
#include "models/cost_model/step_model.h"
#include "models/parallel/schedule/token_slices.h"

namespace thinwire {
namespace {

/// t(s, c) = a + b s + e s (2c + s).
SliceTime affine(double a, double b, double e) {
  return [=](int s, int c) { return a + b * s + e * s * (2 * c + s); };
}

/// Every way to write `length` as an ordered sum, by the bits between tokens.
std::vector<std::vector<int>> all_cuts(int length) {
  std::vector<std::vector<int>> all;
  for (int bits = 0; bits < 1 << (length - 1); ++bits) {
    std::vector<int> cut = {1};
    for (int i = 0; i < length - 1; ++i)
      if (bits >> i & 1)
        cut.push_back(1);
      else
        ++cut.back();
    all.push_back(cut);
  }
  return all;
}

double least_by_trying(const SliceTime& t, int length, int stages) {
  double best = INFINITY;
  for (const auto& cut : all_cuts(length)) best = std::min(best, sliced_step(t, cut, stages));
  return best;
}

/// Any times, not even growing with the tokens: fixed per (batch, tokens, context).
BatchSliceTime random_time(std::uint64_t seed) {
  return [random = Random(seed, "slice times")](int b, int s, int c) {
    const auto index = (static_cast<std::uint64_t>(b) * 64 + static_cast<std::uint64_t>(s)) * 64 + static_cast<std::uint64_t>(c);
    return 0.5 + static_cast<double>(random.below(index, 1000000)) * 1e-6 * s;
  };
}

TEST(TokenSlices, ThePublishedVectorsHaveTheirOptimaAndUniformTimes) {
  struct Vector {
    SliceTime time;
    int length, stages;
    double step;
    std::vector<int> slices;
    std::map<int, double> uniform;
  };
  const std::vector<Vector> vectors = {
      {affine(4, 2, 0), 8, 4, 56, {2, 2, 2, 2}, {{1, 80}, {2, 60}, {4, 56}, {8, 66}}},
      {affine(20, 4, 1), 8, 4, 324, {4, 2, 2}, {{1, 464}, {2, 388}, {4, 344}, {8, 373}}},
      {affine(6, 10, 1), 12, 8, 597, {2, 2, 1, 1, 1, 1, 1, 1, 1, 1}, {{1, 2160}, {2, 1494}, {3, 1164}, {4, 981}, {6, 790}, {12, 609}}}};
  for (const Vector& v : vectors) {
    const SlicePlan plan = best_slices(v.time, v.length, v.stages);
    EXPECT_DOUBLE_EQ(plan.step, v.step);
    EXPECT_EQ(plan.slices, v.slices);
    for (const auto& [count, step] : v.uniform) EXPECT_DOUBLE_EQ(sliced_step(v.time, uniform_slices(v.length, count), v.stages), step) << count;
  }
}

TEST(TokenSlices, TheBestCutIsTheBestOfAllCuts) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const int length = 1 + static_cast<int>(seed % 12), stages = 2 + static_cast<int>(seed % 11);
    const BatchSliceTime any = random_time(seed);
    const SliceTime t = [&](int s, int c) { return any(1, s, c); };
    const SlicePlan plan = best_slices(t, length, stages);
    EXPECT_NEAR(plan.step, least_by_trying(t, length, stages), 1e-9) << "seed " << seed;
    EXPECT_DOUBLE_EQ(plan.step, sliced_step(t, plan.slices, stages)) << "seed " << seed;
  }
}

TEST(TokenSlices, MicroBatchesAndSlicesTogetherAreTheBestOfAllCombinations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    constexpr int batch = 3, length = 4;
    const int stages = 2 + static_cast<int>(seed % 5);
    const BatchSliceTime t = random_time(seed);
    double best = INFINITY;
    const auto cuts = all_cuts(length);
    for (const auto& sizes : all_cuts(batch)) {  // micro-batches in order, each with any cut
      std::vector<std::size_t> choice(sizes.size(), 0);
      for (bool more = true; more;) {
        std::vector<SlicedBatch> plan;
        for (std::size_t i = 0; i < sizes.size(); ++i) plan.push_back({sizes[i], cuts[choice[i]]});
        best = std::min(best, sliced_step(t, plan, stages));
        std::size_t at = 0;
        while (at < choice.size() && ++choice[at] == cuts.size()) choice[at++] = 0;
        more = at < choice.size();
      }
    }
    const BatchPlan plan = best_batches_and_slices(t, batch, length, stages);
    EXPECT_NEAR(plan.step, best, 1e-9) << "seed " << seed;
    EXPECT_NEAR(plan.step, sliced_step(t, plan.micro_batches, stages), 1e-9) << "seed " << seed;
  }
}

TEST(TokenSlices, SkippedBoundsCostAtMostTheirDistanceTimesTheStagesBehind) {
  constexpr double eps = 0.05;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const BatchSliceTime any = random_time(seed);
    const SliceTime t = [&](int s, int c) { return any(1, s, c); };
    const double exact = best_slices(t, 10, 5).step, coarse = best_slices(t, 10, 5, {1, eps}).step;
    EXPECT_GE(coarse, exact - 1e-12) << "seed " << seed;
    EXPECT_LE(coarse, exact + 4 * eps + 1e-12) << "seed " << seed;
  }
  EXPECT_EQ(best_slices(affine(1, 1, 0), 8, 4, {1, 1e9}).slices.empty(), false) << "a plan even where every bound is skipped";
}

TEST(TokenSlices, AGranularityGivesTheBestCutOfWholeUnits) {
  const SliceTime t = affine(20, 4, 1), units = [&](int s, int c) { return t(4 * s, 4 * c); };
  const SlicePlan plan = best_slices(t, 32, 4, {4, 0});
  EXPECT_DOUBLE_EQ(plan.step, best_slices(units, 8, 4).step);
  for (const int s : plan.slices) EXPECT_EQ(s % 4, 0);
}

TEST(TokenSlices, OneStageTakesTheCutWithTheLeastSum) {
  EXPECT_EQ(best_slices(affine(4, 2, 0), 8, 1).slices, std::vector<int>{8}) << "every further slice costs its start";
}

TEST(TokenSlices, AreReadFromTextAndWrongOnesNameTheNumbers) {
  EXPECT_EQ(parse_slices("4", 64), (std::vector<int>{16, 16, 16, 16}));
  EXPECT_EQ(parse_slices("32,16,16", 64), (std::vector<int>{32, 16, 16}));
  EXPECT_EQ(format_slices({32, 16, 16}), "32,16,16");
  for (const char* wrong : {"", "0", "-1", "x", "4,", "32,0,32", "32 16 16", "1e2"}) EXPECT_THROW(parse_slices(wrong, 64), UsageError) << wrong;
  const auto message = [](const char* text) {
    try {
      parse_slices(text, 64);
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(message("32,16").find("48 tokens, but sequences have 64"), std::string::npos) << message("32,16");
  EXPECT_NE(message("6").find("4 or 8"), std::string::npos) << message("6");
  EXPECT_NE(message("65").find("64 would do"), std::string::npos) << message("65");
}

TEST(TokenSlices, WrongExtentsAndTimesAreRefused) {
  EXPECT_THROW(best_slices(affine(1, 1, 0), 8, 0), UsageError);
  EXPECT_THROW(best_slices(affine(1, 1, 0), 0, 2), UsageError);
  EXPECT_THROW(best_slices(affine(1, 1, 0), 8, 2, {3, 0}), UsageError);
  EXPECT_THROW(best_slices(affine(-100, 1, 0), 8, 2), RuntimeFailure);
  EXPECT_THROW(sliced_step(affine(1, 1, 0), {}, 2), UsageError);
}

/// Samples of t = base(b, s) + a0 + a1 b s + a2 b c + a3 b s c, where c > 0.
std::vector<SliceSample> synthetic(double a0, double a1, double a2, double a3) {
  std::vector<SliceSample> samples;
  const auto base = [](int b, int s) { return 100.0 + 3.0 * b * s + 0.01 * s * s; };
  for (const int b : {1, 2})
    for (int s = 8; s <= 64; s += 8)
      for (int c = 0; c + s <= 64; c += 8) {
        const double context = c == 0 ? 0 : a0 + a1 * b * s + a2 * b * c + a3 * b * s * c;
        samples.push_back({b, s, c, base(b, s) + context, 2 * (base(b, s) + context)});
      }
  return samples;
}

TEST(SliceTimes, RecoverTheModelOfTheContextAndInterpolateBetweenLengths) {
  const SliceTimes times(synthetic(4, 0.1, 0.3, 0.02));
  EXPECT_LT(times.largest_context_error(), 1e-9);
  EXPECT_NEAR(times.forward_us(2, 16, 40), 100 + 96 + 2.56 + 4 + 0.1 * 32 + 0.3 * 80 + 0.02 * 2 * 16 * 40, 1e-6);
  EXPECT_NEAR(times.pass_us(1, 16, 24), 3 * times.forward_us(1, 16, 24), 1e-6);
  EXPECT_NEAR(times.forward_us(1, 12, 0), (times.forward_us(1, 8, 0) + times.forward_us(1, 16, 0)) / 2, 1e-9) << "between measured lengths";
  EXPECT_DOUBLE_EQ(SliceTimes(synthetic(-50, 0, 0, 0)).forward_us(1, 8, 8), SliceTimes(synthetic(-50, 0, 0, 0)).forward_us(1, 8, 0)) << "never faster than without a context";
}

TEST(SliceTimes, WhatWasNotMeasuredIsRefused) {
  const SliceTimes times(synthetic(1, 0, 0, 0));
  EXPECT_THROW(times.forward_us(3, 8, 0), UsageError);
  EXPECT_THROW(times.forward_us(1, 4, 0), UsageError);
  EXPECT_THROW(times.forward_us(1, 72, 0), UsageError);
  EXPECT_THROW(SliceTimes({}), UsageError);
  EXPECT_THROW(SliceTimes({{1, 8, 0, 1, 0}}), UsageError);
  EXPECT_THROW(SliceTimes({{1, 8, 0, 1, 1}, {1, 8, 8, 1, 1}}), UsageError) << "one sample of a context";
  EXPECT_DOUBLE_EQ(SliceTimes({{1, 8, 0, 1, 2}}).pass_us(1, 8, 0), 3);
}

TEST(SlicedStepModel, WalksTheTimesOfEverySliceToTheClosedForm) {
  const std::vector<double> forward = {5, 3, 4}, backward = {10, 6, 8};
  for (int p = 1; p <= 5; ++p) {
    StepCosts costs;
    StageWork work;
    work.slice_forward_us = forward, work.slice_backward_us = backward;
    costs.stage.assign(static_cast<std::size_t>(p), work);
    costs.gradient_us.assign(static_cast<std::size_t>(p), 0.0);
    EXPECT_DOUBLE_EQ(predict_step(make_schedule("terapipe", p, 2, 1, 3), costs).step_us, 2 * 36 + (p - 1) * 15.0) << p;
  }
  StepCosts costs;
  StageWork work;
  work.slice_forward_us = {1, 1}, work.slice_backward_us = {1, 1};
  costs.stage.assign(2, work);
  costs.gradient_us.assign(2, 0.0);
  costs.forward_message_us = [](int, int, int slice) { return slice == 0 ? 0.25 : 100.0; };
  EXPECT_DOUBLE_EQ(predict_step(make_schedule("terapipe", 2, 1, 1, 2), costs).step_us, 2 + 100 + 1 + 2 + 1) << "the second slice's message is slow";
}

}  // namespace
}  // namespace thinwire
