// labels: unit
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/codec/state.h"
#include "support/codec_rounds.h"
#include "support/count_allocations.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using testing::relative_difference;
using testing::send_message;

MessageKey key_of(std::int64_t step, Pass pass = Pass::train, const char* tensor = "weight") {
  MessageKey key;
  key.tensor = hash_name(tensor);
  key.step = step;
  key.pass = pass;
  return key;
}

class ErrorFeedbackOf : public ::testing::TestWithParam<const char*> {};

TEST_P(ErrorFeedbackOf, ConservesItsInput) {
  // applied + stored = received: after many steps with a constant input the mean of what arrived is the input
  // up to stored / steps, and the stored residual is bounded.
  const Shape shape{24, 20};
  CodecStack stack = make_codec(std::string(GetParam()) + "+ef");
  const auto sample = normal_numbers(480, 99);
  const ConstTensorView view(sample.data(), shape);
  if (stack.codec->traits().needs_fit) stack.codec->as<Fit>()->fit(std::span(&view, 1));
  std::vector<double> applied(480, 0.0), received(480, 0.0);
  constexpr int steps = 60;
  for (int step = 0; step < steps; ++step) {
    const auto x = normal_numbers(480, 10 + static_cast<std::uint64_t>(step % 7));
    const auto out = send_message(stack, x, shape, key_of(step));
    for (std::size_t i = 0; i < 480; ++i) {
      received[i] += x[i];
      applied[i] += out[i];
    }
  }
  // The stored residual, seen through the wrapper: adding it to zero.
  std::vector<float> stored(480, 0.0f);
  stack.wrappers[0]->before_encode(TensorView(stored.data(), shape), key_of(steps));
  for (std::size_t i = 0; i < 480; ++i) applied[i] += stored[i];
  EXPECT_LT(relative_difference(applied, received), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(EveryCodec, ErrorFeedbackOf,
                         ::testing::Values("none", "cast", "topk:fraction=0.05", "randomk:fraction=0.1", "quantize:bits=4", "quantize:bits=8",
                                           "autoencoder:width=5,wire=f32", "powersgd:rank=2", "powersgd:rank=2,wire=f16"),
                         [](const ::testing::TestParamInfo<const char*>& codec) {
                           std::string name = codec.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

// PowerSGD: the residual is local input minus the global mean; the sum over ranks is conserved.
TEST(ErrorFeedback, OfPowerSgdConservesTheSumOverRanks) {
  const Shape shape{15, 12};
  constexpr int world = 3, steps = 40;
  auto ranks = testing::codec_of_every_rank("powersgd:rank=2+ef", world);
  std::vector<double> received(180, 0.0), applied(180, 0.0);
  for (int step = 0; step < steps; ++step) {
    std::vector<std::vector<float>> inputs;
    for (int r = 0; r < world; ++r) {
      auto x = normal_numbers(180, static_cast<std::uint64_t>(step * world + r));
      for (std::size_t i = 0; i < 180; ++i) received[i] += x[i];
      ranks[static_cast<std::size_t>(r)].wrappers[0]->before_encode(TensorView(x.data(), shape), key_of(step));
      inputs.push_back(std::move(x));
    }
    auto mean = testing::reduce_by_rounds(ranks, inputs, shape, key_of(step));
    for (std::size_t i = 0; i < 180; ++i) applied[i] += mean[i];
    for (float& v : mean) v /= world;
    for (int r = 0; r < world; ++r)
      ranks[static_cast<std::size_t>(r)].wrappers[0]->after_reduce(ConstTensorView(inputs[static_cast<std::size_t>(r)].data(), shape), {},
                                                                   ConstTensorView(mean.data(), shape), key_of(step));
  }
  for (auto& rank : ranks) {
    std::vector<float> stored(180, 0.0f);
    rank.wrappers[0]->before_encode(TensorView(stored.data(), shape), key_of(steps));
    for (std::size_t i = 0; i < 180; ++i) applied[i] += stored[i];
  }
  EXPECT_LT(relative_difference(applied, received), 1e-5);
}

TEST(ErrorFeedback, DeliversAConstantGradientThatPlainTopKDrops) {
  const Shape shape{1, 50};
  std::vector<float> x(50);
  for (int i = 0; i < 50; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(50 - i);
  for (const bool feedback : {false, true}) {
    CodecStack stack = make_codec(feedback ? "topk:fraction=0.1+ef" : "topk:fraction=0.1");
    std::vector<double> sum(50, 0.0);
    for (int step = 0; step < 500; ++step) {
      const auto out = send_message(stack, x, shape, key_of(step));
      for (std::size_t i = 0; i < 50; ++i) sum[i] += out[i] / 500.0;
    }
    const double error = relative_difference(sum, x);
    if (feedback)
      EXPECT_LT(error, 0.02);
    else
      EXPECT_GT(error, 0.5);
  }
}

TEST(ErrorFeedback, FollowsTheTelescopingVectors) {
  // docs/papers/optimus_cc.md, "Worked examples" 3: keep the largest element; d = (2,1), (1,2), (2,1), (1,1).
  CodecStack stack = make_codec("topk:fraction=0.5+ef");
  const std::vector<std::vector<float>> d = {{2, 1}, {1, 2}, {2, 1}, {1, 1}}, expected = {{2, 0}, {0, 3}, {3, 0}, {0, 2}};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(send_message(stack, d[static_cast<std::size_t>(i)], {1, 2}, key_of(i)), expected[static_cast<std::size_t>(i)]);
  std::vector<float> stored = {0, 0};
  stack.wrappers[0]->before_encode(TensorView(stored.data(), Shape{1, 2}), key_of(4));
  EXPECT_EQ(stored, (std::vector<float>{1, 0}));
}

TEST(ErrorFeedback, BetaForgets) {
  CodecStack stack = make_codec("topk:fraction=0.5+ef:beta=0.5");
  send_message(stack, {4, 2}, {1, 2}, key_of(0));
  std::vector<float> x = {1, 1};
  stack.wrappers[0]->before_encode(TensorView(x.data(), Shape{1, 2}), key_of(1));
  EXPECT_EQ(x, (std::vector<float>{1, 2}));
}

TEST(ErrorFeedback, EvaluationLeavesNoTraceAndTensorsAreApart) {
  CodecStack stack = make_codec("topk:fraction=0.5+ef");
  send_message(stack, {4, 2}, {1, 2}, key_of(0));
  EXPECT_EQ(send_message(stack, {1, 9}, {1, 2}, key_of(1, Pass::evaluate)), (std::vector<float>{0, 9}));
  EXPECT_EQ(send_message(stack, {1, 9}, {1, 2}, key_of(1, Pass::train, "other")), (std::vector<float>{0, 9}));
  EXPECT_EQ(send_message(stack, {1, 1}, {1, 2}, key_of(1)), (std::vector<float>{0, 3}));
}

TEST(ErrorFeedback, RefusesAnotherShapeUnderTheSameName) {
  CodecStack stack = make_codec("topk:fraction=0.5+ef");
  send_message(stack, {4, 2}, {1, 2}, key_of(0));
  EXPECT_THROW(send_message(stack, {4, 2, 1}, {1, 3}, key_of(1)), UsageError);
}

/// The residual that the next message would be given.
std::vector<float> residual_of(CodecStack& stack, const Shape& shape, const MessageKey& next) {
  std::vector<float> zero(static_cast<std::size_t>(shape.elements()), 0.0f);
  stack.wrappers[0]->before_encode(TensorView(zero.data(), shape), next);
  return zero;
}

TEST(ErrorFeedback, InFewerBitsItIsThatOfF32ToOneStep) {
  const Shape shape{9, 100};
  const auto x = normal_numbers(900, 4);
  CodecStack wide = make_codec("topk:fraction=0.05+ef");
  send_message(wide, x, shape, key_of(0));
  const auto exact = residual_of(wide, shape, key_of(1));
  for (const char* store : {"bf16", "int8"}) {
    CodecStack narrow = make_codec(std::string("topk:fraction=0.05+ef:store=") + store);
    send_message(narrow, x, shape, key_of(0));
    const auto stored = residual_of(narrow, shape, key_of(1));
    for (std::size_t first = 0; first < exact.size(); first += 256) {
      const std::size_t end = std::min(exact.size(), first + 256);
      float most = 0;
      for (std::size_t i = first; i < end; ++i) most = std::max(most, std::fabs(exact[i]));
      for (std::size_t i = first; i < end; ++i) {
        const float step = std::string(store) == "bf16" ? std::fabs(exact[i]) * 0x1p-7f : most / 127;
        ASSERT_LE(std::fabs(stored[i] - exact[i]), step * 1.0001f) << store << " " << i;
      }
    }
    EXPECT_GT(relative_difference(stored, exact), 1e-4) << "it is rounded";
  }
}

TEST(ErrorFeedback, RoundingIsWithoutBias) {
  const Shape shape{1, 300};
  const auto x = normal_numbers(300, 5);
  CodecStack wide = make_codec("topk:fraction=0.01+ef");
  send_message(wide, x, shape, key_of(0));
  const auto exact = residual_of(wide, shape, key_of(1));
  double most[2] = {0, 0};
  for (std::size_t i = 0; i < 300; ++i) most[i / 256] = std::max(most[i / 256], static_cast<double>(std::fabs(exact[i])));
  constexpr int draws = 2000;
  for (const char* store : {"bf16", "int8"}) {
    CodecStack narrow = make_codec(std::string("topk:fraction=0.01+ef:store=") + store);
    std::vector<double> mean(300, 0.0), square(300, 0.0);
    for (int d = 0; d < draws; ++d) {
      const std::string name = "tensor" + std::to_string(d);  // draws of its own
      send_message(narrow, x, shape, key_of(0, Pass::train, name.c_str()));
      const auto stored = residual_of(narrow, shape, key_of(1, Pass::train, name.c_str()));
      for (std::size_t i = 0; i < 300; ++i) {
        const double error = static_cast<double>(stored[i]) - static_cast<double>(exact[i]);
        mean[i] += error / draws, square[i] += error * error / draws;
      }
    }
    for (std::size_t i = 0; i < 300; ++i) {
      // And what is rounded away so rarely that no draw shows it: less than a hundredth of a step.
      const double step = std::string(store) == "bf16" ? std::fabs(exact[i]) * 0x1p-7 : most[i / 256] / 127;
      EXPECT_LE(std::fabs(mean[i]), 5 * std::sqrt(square[i] / draws) + 0.01 * step) << store << " " << i;
    }
  }
}

// Element 0 is sent each time and element 1 every tenth; element 2 grows by less than half a step of int8, and from 4 on by less than half a step of bf16.
TEST(ErrorFeedback, WhatGrowsSlowlyStandsStillOnlyWhereItIsRoundedToTheNearest) {
  const Shape shape{1, 256};
  std::vector<float> x(256, 0.0f);
  x[0] = 100, x[1] = 10, x[2] = 0.01f;
  constexpr int steps = 5000;
  const auto third = [&](const std::string& wrapper) {
    CodecStack stack = make_codec("topk:fraction=0.00390625+" + wrapper);
    for (int step = 0; step < steps; ++step) EXPECT_EQ(send_message(stack, x, shape, key_of(step))[2], 0.0f);
    return residual_of(stack, shape, key_of(steps))[2];
  };
  EXPECT_NEAR(third("ef"), 50, 0.1);
  // Standard deviation of the sum of roundings: below 3 in bf16, below 5 in int8.
  EXPECT_NEAR(third("ef:store=bf16"), 50, 15);
  EXPECT_NEAR(third("ef:store=int8"), 50, 25);
  for (const char* store : {"bf16", "int8"}) EXPECT_LT(third(std::string("loco:beta=0,reset=0,store=") + store), 10) << "the same feedback, rounded to the nearest: " << store;
}

TEST(ErrorFeedback, ASavedStateInFewerBitsGoesOnBitEqual) {
  const Shape shape{9, 100};
  for (const char* store : {"f32", "bf16", "int8"}) {
    const std::string expression = std::string("quantize:bits=3+ef:store=") + store;
    CodecStack one = make_codec(expression), other = make_codec(expression);
    const auto input = [](int step) { return normal_numbers(900, static_cast<std::uint64_t>(step)); };
    for (int step = 0; step < 3; ++step) send_message(one, input(step), shape, key_of(step));
    StateWriter writer;
    one.wrappers[0]->save_state(writer);
    const std::vector<std::byte> bytes = writer.finish();
    StateReader reader(bytes);
    other.wrappers[0]->load_state(reader);
    reader.check_all_taken();
    for (int step = 3; step < 6; ++step) EXPECT_EQ(send_message(one, input(step), shape, key_of(step)), send_message(other, input(step), shape, key_of(step))) << store;
  }
}

TEST(ErrorFeedback, SteadyStateAllocatesNothing) {
  for (const char* store : {"f32", "bf16", "int8"}) {
    CodecStack stack = make_codec(std::string("cast+ef:store=") + store);
    const Shape shape{100, 40};
    auto x = normal_numbers(4000, 1);
    const auto y = normal_numbers(4000, 2);
    const auto step = [&](int i) {
      stack.wrappers[0]->before_encode(TensorView(x.data(), shape), key_of(i));
      stack.wrappers[0]->after_encode(ConstTensorView(x.data(), shape), ConstTensorView(y.data(), shape), key_of(i));
    };
    step(0);
    const long before = testing::allocations;
    for (int i = 1; i < 5; ++i) step(i);
    EXPECT_EQ(testing::allocations - before, 0) << store;
  }
}

}  // namespace
}  // namespace thinwire
