// labels: mpi
// ranks: 1
// Weights of codecs that train: their optimizer corrects its moments by the steps that these have seen, which begin with the rule, and a checkpoint keeps the count.
#include "models/training/codec_training.h"

#include <cmath>

#include "kernels/codec/state.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t columns = 8;
constexpr double rate = 1e-2;

/// An auto-encoder of one message, whose rule begins at `warmup_steps`, and what trains it.
struct Trained {
  explicit Trained(std::int64_t warmup_steps)
      : pair(world(), TrafficClass::pp_forward, {.codec = "autoencoder:width=2,init=orthonormal,wire=f32", .warmup_steps = warmup_steps}, {}), training(nullptr, nullptr, {}, clock) {
    training.add(pair, {7}, columns, false, false);
  }
  std::vector<CodecParameter> weights() { return pair.coded()->codec().codec->as<Trainable>()->trainable(); }
  std::vector<float> values() {
    std::vector<float> all;
    for (const CodecParameter& w : weights()) all.insert(all.end(), w.value.begin(), w.value.end());
    return all;
  }
  /// Step `number` of the run, the `of_rule`-th whose messages are coded; none: a dense one.
  void step(std::int64_t number, int of_rule = -1) {
    if (of_rule >= 0)
      for (const CodecParameter& w : weights())
        for (std::size_t i = 0; i < w.gradient.size(); ++i) w.gradient[i] = (i % 2 == 0 ? 0.5f : -0.25f) * static_cast<float>(1 + of_rule);
    training.step(number, rate);
  }
  void go_on_from(Trained& other, bool with_steps) {
    StateWriter writer;
    other.pair.coded()->codec().codec->as<State>()->save_state(writer);
    const std::vector<std::byte> bytes = writer.finish();
    StateReader reader(bytes);
    pair.coded()->codec().codec->as<State>()->load_state(reader);
    training.load_state(other.training.save_state());
    training.load_steps(with_steps ? other.training.save_steps() : std::vector<std::byte>());
  }

  ComputeClock clock;
  ChannelPair pair;
  CodecTraining training;
};

/// How much further one step takes each weight, against the rate.
std::vector<double> moved(const std::vector<float>& before, const std::vector<float>& after) {
  std::vector<double> steps;
  for (std::size_t i = 0; i < before.size(); ++i) steps.push_back(std::abs(static_cast<double>(after[i]) - static_cast<double>(before[i])) / rate);
  return steps;
}

TEST(CodecTraining, ARuleThatBeginsLaterStepsAsOneThatBeginsAtOnce) {
  Trained at_once(0), later(3);
  const std::vector<float> start = later.values();
  ASSERT_EQ(start, at_once.values());
  for (int s = 0; s < 3; ++s) later.step(s);
  EXPECT_EQ(later.values(), start) << "nothing was coded yet";
  for (int s = 0; s < 4; ++s) {
    at_once.step(s, s), later.step(3 + s, s);
    EXPECT_EQ(later.values(), at_once.values()) << "step " << s;
    if (s > 0) continue;
    for (const double step : moved(start, later.values())) EXPECT_NEAR(step, 1, 1e-3) << "AdamW's first step is as long as the rate";
  }
}

TEST(CodecTraining, ACodecThatStartsAnewInTheMiddleOfARunBeginsItsCountThere) {
  Trained anew(0);
  const std::vector<float> start = anew.values();
  anew.step(100, 0);  // --codec-state reset: no state was loaded
  for (const double step : moved(start, anew.values())) EXPECT_NEAR(step, 1, 1e-3);
}

TEST(CodecTraining, ACheckpointKeepsTheCountAndOneWithoutItTakesTheRunsSteps) {
  Trained whole(3), resumed(3), older(3);
  for (int s = 0; s < 5; ++s) whole.step(s, s - 3);
  resumed.go_on_from(whole, true);
  older.go_on_from(whole, false);
  whole.step(5, 2), resumed.step(5, 2), older.step(5, 2);
  EXPECT_EQ(resumed.values(), whole.values());
  EXPECT_NE(older.values(), whole.values());
  // A rule that was there from the start has counted the run's steps anyway.
  Trained by_run(0), counted(0);
  for (int s = 0; s < 5; ++s) by_run.step(s, s);
  older.go_on_from(by_run, false), counted.go_on_from(by_run, true);
  by_run.step(5, 5), older.step(5, 5), counted.step(5, 5);
  EXPECT_EQ(older.values(), by_run.values());
  EXPECT_EQ(counted.values(), by_run.values());
}

TEST(CodecTraining, ADamagedCountIsRefused) {
  Trained t(0);
  std::vector<std::byte> steps = t.training.save_steps();
  steps.pop_back();
  EXPECT_THROW(t.training.load_steps(steps), CorruptData);
  steps.assign(t.training.save_steps().size(), std::byte{0xff});
  steps[0] = std::byte{0xfe};  // -2
  EXPECT_THROW(t.training.load_steps(steps), CorruptData);
  EXPECT_NO_THROW(t.training.load_steps(t.training.save_steps()));
}

}  // namespace
}  // namespace thinwire
