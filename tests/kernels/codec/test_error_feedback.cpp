// labels: unit
#include <gtest/gtest.h>

#include <cmath>

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

TEST(ErrorFeedback, SteadyStateAllocatesNothing) {
  CodecStack stack = make_codec("cast+ef");
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
  EXPECT_EQ(testing::allocations - before, 0);
}

}  // namespace
}  // namespace thinwire
