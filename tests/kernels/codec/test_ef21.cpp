// labels: unit
// EF21 against its worked examples (docs/papers/gradient_compression.md and docs/papers/sharded_compression.md, "Worked examples"): both ends hold equal bits, what is
// delivered closes in on what is sent, sums over ranks are sums of what the ranks hold.
#include <gtest/gtest.h>

#include "kernels/codec/message.h"
#include "kernels/codec/state.h"
#include "support/codec_expressions.h"
#include "support/codec_rounds.h"
#include "support/count_allocations.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using testing::relative_difference;
using Floats = std::vector<float>;

MessageKey key_of(std::int64_t step, Pass pass = Pass::train, const char* tensor = "gradient") {
  MessageKey key;
  key.tensor = hash_name(tensor);
  key.step = step;
  key.pass = pass;
  return key;
}

/// A sender and a receiver of one boundary.
struct Ends {
  explicit Ends(const std::string& expression) : sender(make_codec(expression)), receiver(make_codec(expression)) {}
  /// What arrives; `payload` then holds the message.
  Floats send(const Floats& x, const Shape& shape, const MessageKey& key) {
    payload.resize(sender.codec->max_payload_bytes(shape));
    payload.resize(encode_message(sender, ConstTensorView(x.data(), shape), key, payload, scratch));
    Floats out(x.size());
    decode_message(receiver, payload, key, TensorView(out.data(), shape));
    return out;
  }
  /// What the sender believes that the receiver holds.
  Floats belief(const Shape& shape, const MessageKey& key) {
    Floats out(static_cast<std::size_t>(shape.elements()));
    sender.keep_own(TensorView(out.data(), shape), key);
    return out;
  }
  CodecStack sender, receiver;
  std::vector<std::byte> payload;
  MessageScratch scratch;
};

std::vector<std::byte> state_of(const CodecStack& stack) {
  StateWriter writer;
  stack.wrappers[0]->save_state(writer);
  return writer.finish();
}
void load_state(CodecStack& stack, const std::vector<std::byte>& bytes) {
  StateReader reader(bytes);
  stack.wrappers[0]->load_state(reader);
  reader.check_all_taken();
}
/// The original's first message, in full: `from` has sent it, `to` goes on from there.
void hand_over(Ends& from, Ends& to) {
  load_state(to.sender, state_of(from.sender));
  load_state(to.receiver, state_of(from.receiver));
}

TEST(Ef21, FollowsTheWorkedExampleOfItsMethod) {
  // f = (x1^2 + 4 x2^2) / 2 from (1, 1) with step .1, keeping one element of each change.
  Ends start("topk:fraction=1,values=f32+ef21"), ends("topk:count=1,values=f32+ef21");
  const Shape shape{1, 2};
  Floats x = {1, 1};
  const Floats expected[] = {{.9f, .6f}, {.8f, .36f}, {.7f, .216f}};
  for (int step = 0; step < 3; ++step) {
    const Floats gradient = {x[0], 4 * x[1]};
    const Floats g = (step == 0 ? start : ends).send(gradient, shape, key_of(step));
    if (step == 0) hand_over(start, ends);
    for (std::size_t i = 0; i < 2; ++i) {
      x[i] -= .1f * g[i];
      EXPECT_NEAR(x[i], expected[step][i], 1e-6) << "step " << step;
    }
  }
}

TEST(Ef21, OfWeightsIsSdp4BitsWeightDifferences) {
  Ends start("none+ef21"), ends("group:bits=4,group=32+ef21");
  const Shape shape{1, 4};
  Floats w = {1, -.5f, .25f, .125f};
  EXPECT_EQ(start.send(w, shape, key_of(0)), w);
  hand_over(start, ends);
  const Floats updates[] = {{.010f, -.004f, .002f, .001f}, {.008f, -.006f, .001f, -.002f}, {-.009f, .003f, .004f, .002f}};
  const int codes[][4] = {{7, -3, 1, 1}, {7, -5, 1, -2}, {-7, 2, 3, 1}};
  const double errors[] = {.000571, .000429, .000571};
  for (std::size_t step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < 4; ++i) w[i] += updates[step][i];
    const Floats model = ends.send(w, shape, key_of(static_cast<std::int64_t>(step) + 1));
    double worst = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      worst = std::max(worst, std::fabs(static_cast<double>(w[i]) - static_cast<double>(model[i])));
      const int nibble = static_cast<int>(ends.payload[4 + i / 2]) >> (i % 2 == 0 ? 4 : 0) & 15;
      EXPECT_EQ(nibble < 8 ? nibble : nibble - 16, codes[step][i]) << "update " << step << ", element " << i;
    }
    EXPECT_NEAR(worst, errors[step], 1e-6);
  }
}

void fit_where_needed(CodecStack& stack, std::int64_t columns) {
  if (!stack.codec->traits().needs_fit) return;
  const Floats sample = normal_numbers(64 * columns, 1);
  const ConstTensorView view(sample.data(), Shape{64, columns});
  stack.codec->as<Fit>()->fit({&view, 1});
}

TEST(Ef21, BothEndsHoldEqualBitsUnderEveryCodec) {
  const Shape shape{9, 20};
  for (const testing::CodecCase& c : testing::codec_cases()) {
    if (c.codec.find(':') != std::string::npos || c.form == Form::released) continue;
    SCOPED_TRACE(c.codec);
    Ends ends(c.codec + "+ef21");
    if (!ends.sender.codec->traits().gather) continue;
    fit_where_needed(ends.sender, 20);
    fit_where_needed(ends.receiver, 20);
    for (int step = 0; step < 6; ++step) {
      const Floats x = normal_numbers(180, static_cast<std::uint64_t>(step));
      const Floats arrived = ends.send(x, shape, key_of(step));
      EXPECT_EQ(arrived, ends.belief(shape, key_of(step))) << "step " << step;
    }
  }
}

TEST(Ef21, ClosesInOnWhatStandsStill) {
  const Shape shape{8, 32};
  const Floats x = normal_numbers(256, 3);
  for (const char* codec : {"group:bits=4,group=32", "topk:fraction=0.2,values=f32", "quantize:bits=4", "powersgd:rank=2"}) {
    Ends ends(std::string(codec) + "+ef21");
    double first = 0, last = 0;
    for (int step = 0; step < 30; ++step) {
      last = relative_difference(ends.send(x, shape, key_of(step)), x);
      if (step == 0) first = last;
    }
    EXPECT_GT(first, 0.05) << codec;
    EXPECT_LT(last, 1e-3 * first) << codec;
  }
}

/// What channels do around a sum by rounds, for all ranks.
std::vector<Floats> reduce(std::vector<CodecStack>& ranks, std::vector<Floats> inputs, const Shape& shape, const MessageKey& key) {
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].before_encode(TensorView(inputs[r].data(), shape), key);
  std::vector<Floats> sums;
  testing::reduce_by_rounds(ranks, inputs, shape, key, &sums);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Floats own(inputs[r].size()), mean;
    const bool has_own = ranks[r].codec->traits().feedback == FeedbackSource::own_decoded;
    if (has_own) ranks[r].codec->as<Rounds>()->own_decoded(key, TensorView(own.data(), shape));
    ranks[r].deliver(TensorView(sums[r].data(), shape), key);
    mean = sums[r];
    for (float& v : mean) v /= static_cast<float>(ranks.size());
    ranks[r].after_reduce(ConstTensorView(inputs[r].data(), shape), has_own ? ConstTensorView(own.data(), shape) : ConstTensorView(), ConstTensorView(mean.data(), shape), key);
  }
  return sums;
}

TEST(Ef21, ASumDeliversTheSumOfWhatTheRanksHold) {
  const Shape shape{8, 24};
  for (const char* codec : {"randomk:fraction=0.3,values=f32", "cast:to=bf16", "powersgd:rank=2,wire=f32"}) {
    SCOPED_TRACE(codec);
    auto ranks = testing::codec_of_every_rank(std::string(codec) + "+ef21", 3);
    std::vector<Floats> inputs;
    Floats exact(192, 0.0f);
    for (std::uint64_t r = 0; r < 3; ++r) {
      inputs.push_back(normal_numbers(192, r));
      for (std::size_t i = 0; i < 192; ++i) exact[i] += inputs.back()[i];
    }
    std::vector<Floats> sums;
    for (int step = 0; step < 60; ++step) {
      sums = reduce(ranks, inputs, shape, key_of(step));
      for (const Floats& sum : sums) ASSERT_EQ(sum, sums[0]) << "step " << step;
      if (ranks[0].codec->traits().feedback != FeedbackSource::own_decoded) continue;
      Floats held(192, 0.0f);
      for (CodecStack& rank : ranks) {
        Floats g(192);
        rank.keep_own(TensorView(g.data(), shape), key_of(step));
        for (std::size_t i = 0; i < 192; ++i) held[i] += g[i];
      }
      EXPECT_LT(relative_difference(sums[0], held), 1e-5 + 1e-2 * (std::string(codec).starts_with("cast") ? 1 : 0)) << "a bf16 sum rounds once more";
    }
    EXPECT_LT(relative_difference(sums[0], exact), std::string(codec).starts_with("cast") ? 1e-2 : 1e-4);
  }
}

TEST(Ef21, EvaluationSeesTheCodecAloneAndTensorsAreApart) {
  Ends ends("topk:fraction=0.5+ef21");
  const Shape shape{1, 2};
  EXPECT_EQ(ends.send({4, 2}, shape, key_of(0)), (Floats{4, 0}));
  EXPECT_EQ(ends.send({1, 9}, shape, key_of(1, Pass::evaluate)), (Floats{0, 9}));
  EXPECT_EQ(ends.send({1, 9}, shape, key_of(1, Pass::train, "other")), (Floats{0, 9}));
  EXPECT_EQ(ends.send({4, 2}, shape, key_of(1)), (Floats{4, 2}));
}

TEST(Ef21, RefusesAnotherShapeUnderTheSameName) {
  Ends ends("topk:fraction=0.5+ef21");
  ends.send({4, 2}, {1, 2}, key_of(0));
  EXPECT_THROW(ends.send({4, 2, 1}, {1, 3}, key_of(1)), UsageError);
}

TEST(Ef21, ASavedStateGoesOnBitEqualOnBothEnds) {
  const Shape shape{6, 40};
  Ends ends("group:bits=3,group=32+ef21"), fresh("group:bits=3,group=32+ef21");
  const auto input = [](int step) { return normal_numbers(240, static_cast<std::uint64_t>(step)); };
  for (int step = 0; step < 3; ++step) ends.send(input(step), shape, key_of(step));
  hand_over(ends, fresh);
  for (int step = 3; step < 6; ++step) EXPECT_EQ(ends.send(input(step), shape, key_of(step)), fresh.send(input(step), shape, key_of(step)));
  EXPECT_EQ(state_of(ends.sender), state_of(fresh.sender));
  EXPECT_EQ(state_of(ends.receiver), state_of(fresh.receiver));
}

TEST(Ef21, SteadyStateAllocatesNothing) {
  Ends ends("group+ef21");
  const Shape shape{100, 40};
  const Floats x = normal_numbers(4000, 1);
  std::vector<std::byte> payload(ends.sender.codec->max_payload_bytes(shape));
  Floats out(x.size());
  const auto once = [&](int step) {
    const std::size_t bytes = encode_message(ends.sender, ConstTensorView(x.data(), shape), key_of(step), payload, ends.scratch);
    decode_message(ends.receiver, std::span(payload).first(bytes), key_of(step), TensorView(out.data(), shape));
  };
  once(0);
  once(1);
  const long before = testing::allocations;
  for (int step = 2; step < 6; ++step) once(step);
  EXPECT_EQ(testing::allocations, before);
}

TEST(Ef21, IsRefusedTogetherWithOtherFeedback) {
  for (const char* expression : {"topk+ef21+ef", "topk+ef+ef21", "topk+ef21+ef21"}) EXPECT_THROW(parse_codec(expression), UsageError) << expression;
  EXPECT_EQ(parse_codec("group+hadamard+ef21").canonical(), "group+hadamard+ef21");
}

}  // namespace
}  // namespace thinwire
