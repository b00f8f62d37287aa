// labels: unit
// LoCo against its recursion in float64 (docs/papers/sharded_compression.md, "The algorithms, as they are to be built"), its relation to error feedback, resets, errors
// in 8 bits, and state.
#include <gtest/gtest.h>

#include <omp.h>

#include "kernels/codec/message.h"
#include "kernels/codec/state.h"
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

Floats send(CodecStack& stack, const Floats& x, const Shape& shape, const MessageKey& key) {
  MessageScratch scratch;
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  payload.resize(encode_message(stack, ConstTensorView(x.data(), shape), key, payload, scratch));
  Floats out(x.size());
  decode_message(stack, payload, key, TensorView(out.data(), shape));
  return out;
}

/// The error that the next message would be given.
Floats error_of(CodecStack& stack, const Shape& shape, const MessageKey& next) {
  Floats zero(static_cast<std::size_t>(shape.elements()), 0.0f);
  stack.before_encode(TensorView(zero.data(), shape), next);
  return zero;
}

Floats input(int step) { return normal_numbers(900, static_cast<std::uint64_t>(step)); }
const Shape shape{9, 100};

TEST(LoCo, FollowsItsRecursion) {
  for (const double beta : {0.8, 0.5, 0.0, 1.0}) {
    CodecStack stack = make_codec("group:bits=4,group=128+loco:beta=" + std::to_string(beta));
    std::vector<double> e(900, 0.0);
    for (int step = 0; step < 25; ++step) {
      const Floats x = input(step), seen = send(stack, x, shape, key_of(step));
      for (std::size_t i = 0; i < e.size(); ++i) e[i] = beta * e[i] + (1 - beta) * (static_cast<double>(x[i]) + e[i] - static_cast<double>(seen[i]));
      const Floats held = error_of(stack, shape, key_of(step + 1));
      for (std::size_t i = 0; i < e.size(); ++i) {
        ASSERT_NEAR(held[i], e[i], 1e-5) << "beta " << beta << ", step " << step << ", element " << i;
        e[i] = static_cast<double>(held[i]);  // roundings do not add up
      }
    }
  }
}

TEST(LoCo, WithoutMemoryOfTheAverageIsErrorFeedback) {
  CodecStack loco = make_codec("quantize:bits=3+loco:beta=0,reset=0"), feedback = make_codec("quantize:bits=3+ef");
  for (int step = 0; step < 10; ++step) EXPECT_EQ(send(loco, input(step), shape, key_of(step)), send(feedback, input(step), shape, key_of(step))) << step;
}

TEST(LoCo, ErrorsIn8BitsAreThoseOfF32ToTheirStep) {
  CodecStack wide = make_codec("group+loco:reset=0"), narrow = make_codec("group+loco:reset=0,store=int8");
  const Floats x = input(0);
  send(wide, x, shape, key_of(0));
  send(narrow, x, shape, key_of(0));
  const Floats exact = error_of(wide, shape, key_of(1)), stored = error_of(narrow, shape, key_of(1));
  for (std::size_t first = 0; first < exact.size(); first += 256) {
    const std::size_t end = std::min(exact.size(), first + 256);
    float most = 0;
    for (std::size_t i = first; i < end; ++i) most = std::max(most, std::fabs(exact[i]));
    for (std::size_t i = first; i < end; ++i) ASSERT_LE(std::fabs(stored[i] - exact[i]), most / 127 * 0.5001f) << i;
  }
  EXPECT_GT(relative_difference(stored, exact), 1e-4) << "it is rounded";
  EXPECT_LT(relative_difference(stored, exact), 1e-2);
}

TEST(LoCo, ForgetsAfterAsManyMessagesOfEachTensorAsItIsTold) {
  for (const char* store : {"f32", "bf16", "int8"}) {
    CodecStack stack = make_codec(std::string("quantize:bits=3+loco:reset=3,store=") + store);
    const Floats zero(900, 0.0f);
    for (int step = 0; step < 6; ++step) {
      send(stack, input(step), shape, key_of(step));
      if (step % 2 == 0) send(stack, input(step), shape, key_of(step, Pass::train, "other"));  // counted apart
      EXPECT_EQ(error_of(stack, shape, key_of(step + 1)) == zero, step % 3 == 2) << step;
    }
    EXPECT_EQ(error_of(stack, shape, key_of(9, Pass::train, "other")), zero) << "three messages of its own";
  }
}

TEST(LoCo, EvaluationLeavesNoTraceAndAnotherShapeIsRefused) {
  for (const char* store : {"f32", "bf16", "int8"}) {
    CodecStack stack = make_codec(std::string("quantize:bits=3+loco:store=") + store), plain = make_codec("quantize:bits=3");
    send(stack, input(0), shape, key_of(0));
    const Floats before = error_of(stack, shape, key_of(1));
    EXPECT_EQ(send(stack, input(1), shape, key_of(1, Pass::evaluate)), send(plain, input(1), shape, key_of(1, Pass::evaluate)));
    EXPECT_EQ(error_of(stack, shape, key_of(1)), before);
    EXPECT_THROW(send(stack, normal_numbers(90, 1), Shape{9, 10}, key_of(1)), UsageError);
  }
}

TEST(LoCo, ASavedStateGoesOnBitEqualAndADamagedOneIsRefused) {
  for (const char* store : {"f32", "bf16", "int8"}) {
    const std::string expression = std::string("group+loco:reset=5,store=") + store;
    CodecStack one = make_codec(expression), other = make_codec(expression);
    for (int step = 0; step < 3; ++step) send(one, input(step), shape, key_of(step));
    StateWriter writer;
    one.wrappers[0]->save_state(writer);
    const std::vector<std::byte> bytes = writer.finish();
    StateReader reader(bytes);
    other.wrappers[0]->load_state(reader);
    reader.check_all_taken();
    for (int step = 3; step < 9; ++step) EXPECT_EQ(send(one, input(step), shape, key_of(step)), send(other, input(step), shape, key_of(step))) << store << " " << step;
  }
  // Codes without their steps.
  StateWriter writer;
  const std::vector<std::byte> codes(900);
  writer.put("residual codes", key_of(0).state_key(), codes);
  const std::vector<std::byte> bytes = writer.finish();
  StateReader reader(bytes);
  EXPECT_THROW(make_codec("group+loco:store=int8").wrappers[0]->load_state(reader), CorruptData);
}

TEST(LoCo, ResultsDoNotDependOnTheNumberOfThreads) {
  const Shape large{300, 401};
  const int before = omp_get_max_threads();
  for (const char* store : {"f32", "bf16", "int8"}) {
    std::vector<Floats> results;
    for (const int threads : {1, 3}) {
      omp_set_num_threads(threads);
      CodecStack stack = make_codec(std::string("group+loco:store=") + store);
      for (int step = 0; step < 2; ++step) send(stack, normal_numbers(large.elements(), static_cast<std::uint64_t>(step)), large, key_of(step));
      results.push_back(error_of(stack, large, key_of(2)));
    }
    EXPECT_EQ(results[0], results[1]) << store;
  }
  omp_set_num_threads(before);
}

TEST(LoCo, SteadyStateAllocatesNothing) {
  for (const char* store : {"f32", "bf16", "int8"}) {
    CodecStack stack = make_codec(std::string("group+loco:store=") + store);
    MessageScratch scratch;
    std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
    const Floats x = input(0);
    const auto once = [&](int step) { encode_message(stack, ConstTensorView(x.data(), shape), key_of(step), payload, scratch); };
    once(0);
    once(1);
    const long before = testing::allocations;
    for (int step = 2; step < 6; ++step) once(step);
    EXPECT_EQ(testing::allocations, before) << store;
  }
}

}  // namespace
}  // namespace thinwire
