// labels: unit
// Lazy error propagation against worked examples and conservation (docs/papers/optimus_cc.md, "The method, as built here" and "Worked
// examples").
#include <gtest/gtest.h>

#include "kernels/codec/message.h"
#include "kernels/codec/state.h"
#include "support/codec_rounds.h"

namespace thinwire {
namespace {

MessageKey key_of(std::int64_t step, std::int32_t micro_batch, Pass pass = Pass::train) {
  MessageKey key;
  key.tensor = hash_name("boundary2");
  key.step = step;
  key.micro_batch = micro_batch;
  key.pass = pass;
  return key;
}

// One message from stage to stage: what the receiver sees.
std::vector<float> send(CodecStack& stack, std::vector<float> x, const MessageKey& key) {
  const Shape shape{1, static_cast<std::int64_t>(x.size())};
  return testing::send_message(stack, std::move(x), shape, key);
}

using Pair = std::vector<float>;
const std::vector<Pair> gradients = {{2, 1}, {1, 2}, {2, 1}, {1, 1}};

// What the next message of the boundary would be given besides its own gradient.
Pair leftover(CodecStack& stack, const MessageKey& next) {
  Pair zero = {0, 0};
  for (auto& w : stack.wrappers) w->before_encode(TensorView(zero.data(), Shape{1, 2}), next);
  return zero;
}

TEST(LazyErrorPropagation, HandsTheErrorOfAMicroBatchToTheNextAsInTheWorkedExample) {
  CodecStack stack = make_codec("topk:fraction=0.5+lep");  // two elements: keeps the larger
  std::vector<Pair> sent;
  for (int i = 0; i < 4; ++i) sent.push_back(send(stack, gradients[static_cast<std::size_t>(i)], key_of(0, i)));
  EXPECT_EQ(sent, (std::vector<Pair>{{2, 0}, {0, 3}, {3, 0}, {0, 2}}));
  EXPECT_EQ(leftover(stack, key_of(1, 0)), (Pair{1, 0}));
}

TEST(LazyErrorPropagation, WithoutItTheSameMessagesLoseWhatIsNotKept) {
  CodecStack stack = make_codec("topk:fraction=0.5");
  Pair sum = {0, 0};
  for (int i = 0; i < 4; ++i) {
    const Pair out = send(stack, gradients[static_cast<std::size_t>(i)], key_of(0, i));
    for (std::size_t k = 0; k < 2; ++k) sum[k] += out[k];
  }
  EXPECT_EQ(sum, (Pair{5, 2}));
}

TEST(LazyErrorPropagation, DropForgetsTheLeftoverOfAMiniBatchAndCarryKeepsIt) {
  for (const bool carries : {true, false}) {
    CodecStack stack = make_codec(carries ? "topk:fraction=0.5+lep" : "topk:fraction=0.5+lep:leftover=drop");
    for (int i = 0; i < 4; ++i) send(stack, gradients[static_cast<std::size_t>(i)], key_of(0, i));
    EXPECT_EQ(send(stack, {0, 0.5f}, key_of(1, 0)), (carries ? Pair{1, 0} : Pair{0, 0.5f}));
  }
}

TEST(LazyErrorPropagation, RecomputationAndEvaluationLeaveNoTrace) {
  CodecStack stack = make_codec("topk:fraction=0.5+lep");
  send(stack, {2, 1}, key_of(0, 0));
  send(stack, {7, 9}, key_of(0, 0, Pass::evaluate));
  EXPECT_EQ(send(stack, {1, 2}, key_of(0, 1)), (Pair{0, 3}));
}

TEST(LazyErrorPropagation, ASavedStateGoesOnAsIfNothingHappened) {
  for (const char* expression : {"topk:fraction=0.5+lep", "topk:fraction=0.5+lep:leftover=drop"}) {
    CodecStack one = make_codec(expression), other = make_codec(expression);
    for (int i = 0; i < 3; ++i) send(one, gradients[static_cast<std::size_t>(i)], key_of(0, i));
    StateWriter writer;
    one.wrappers[0]->save_state(writer);
    const std::vector<std::byte> bytes = writer.finish();
    StateReader reader(bytes);
    other.wrappers[0]->load_state(reader);
    reader.check_all_taken();
    EXPECT_EQ(send(one, {1, 1}, key_of(1, 0)), send(other, {1, 1}, key_of(1, 0))) << expression;
  }
}

// encode_message() works in the residual itself; the hooks around a private copy are the definition.
TEST(LazyErrorPropagation, AMessageInTheResidualsOwnMemoryIsThatOfThePrivateCopyWithoutTheCopies) {
  const Shape shape{7, 5};
  for (const char* expression : {"topk:fraction=0.2+lep", "topk:fraction=0.2+lep:leftover=drop", "quantize:bits=4+lep", "randomk:fraction=0.3+lep",
                                 "powersgd:rank=2+lep", "powersgd:rank=2+lep:leftover=drop"}) {
    CodecStack in_place = make_codec(expression), copied = make_codec(expression);
    MessageScratch scratch;
    for (int n = 0; n < 12; ++n) {
      const std::vector<float> x = testing::normal_numbers(shape.elements(), static_cast<std::uint64_t>(n));
      const MessageKey key = key_of(n / 4, n % 4);
      std::vector<std::byte> payload(in_place.codec->max_payload_bytes(shape));
      const std::size_t bytes = encode_message(in_place, {x.data(), shape}, key, payload, scratch);
      std::vector<float> arrived(x.size());
      decode_message(in_place, {payload.data(), bytes}, key, {arrived.data(), shape});
      EXPECT_LE(testing::relative_difference(arrived, testing::send_message(copied, x, shape, key)), 1e-5) << expression << ", message " << n;
    }
    EXPECT_EQ(scratch.local.elements() + scratch.own.elements(), 0) << expression;
  }
}

TEST(LazyErrorPropagation, InAReductionIsErrorFeedback) {
  CodecStack lep = make_codec("topk:fraction=0.5+lep"), ef = make_codec("topk:fraction=0.5+ef");
  const Pair x = {3, 2}, own = {3, 0}, mean = {2, 1};
  const Shape shape{1, 2};
  for (CodecStack* stack : {&lep, &ef})
    stack->wrappers[0]->after_reduce(ConstTensorView(x.data(), shape), ConstTensorView(own.data(), shape), ConstTensorView(mean.data(), shape), key_of(0, 0));
  EXPECT_EQ(leftover(lep, key_of(1, 0)), (Pair{0, 2}));
  EXPECT_EQ(leftover(ef, key_of(1, 0)), (Pair{0, 2}));
}

}  // namespace
}  // namespace thinwire
