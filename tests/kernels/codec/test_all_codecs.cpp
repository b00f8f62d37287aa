// labels: unit
// timeout: 1200
// optimised: yes
// What every registered codec promises, in every form and for every choice of its parameters: sizes,
// determinism, refusal of NaN and of damaged payloads, no allocation in the steady state. A new codec is
// tested here without a line of its own. Then the two dense codecs against known answers.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "core/clock.h"
#include "kernels/convert.h"
#include "kernels/subnormals.h"
#include "support/codec_expressions.h"
#include "support/codec_rounds.h"
#include "support/count_allocations.h"
#include "support/reference_codecs.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;

MessageKey key_of(std::int64_t step) {
  MessageKey key;
  key.tensor = hash_name("all codecs");
  key.step = step;
  return key;
}

using Case = testing::CodecCase;

std::vector<Case> all_cases() {
  std::vector<Case> cases = testing::codec_cases();
  EXPECT_FALSE(cases.empty()) << "no codec to test";
  return cases;
}

CodecStack make(const Case& c, Shape shape) {
  CodecStack stack = make_codec(c.codec, c.form);
  if (stack.codec->traits().needs_fit && shape.columns() > 0) {
    static std::vector<float> sample;
    sample = normal_numbers(64 * shape.columns(), 1);
    const ConstTensorView view(sample.data(), Shape{64, shape.columns()});
    stack.codec->as<Fit>()->fit({&view, 1});
  }
  return stack;
}

std::vector<std::byte> encode(CodecStack& stack, const std::vector<float>& x, Shape shape,
                              const MessageKey& key) {
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), key, payload));
  payload.shrink_to_fit();  // so that a sanitizer sees any access behind the end
  return payload;
}
std::vector<float> decode(CodecStack& stack, std::span<const std::byte> payload, Shape shape,
                          const MessageKey& key) {
  std::vector<float> out(static_cast<std::size_t>(shape.elements()), -7.0f);
  stack.codec->decode(payload, key, TensorView(out.data(), shape));
  return out;
}

const Shape shapes[] = {{1}, {1, 1}, {7, 13}, {3, 5, 17}, {1, 127}, {127, 1}, {16, 64}, {0, 8}, {2, 3, 5, 7}};

TEST(EveryCodec, StaysWithinItsDeclaredSizeAndTheTensor) {
  for (const Case& c : all_cases())
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(c.text() + " " + shape.to_string());
      CodecStack stack = make(c, shape);
      if (!stack.codec->traits().gather) continue;
      const auto x = normal_numbers(shape.elements(), 2);
      const std::size_t bound = stack.codec->max_payload_bytes(shape);
      std::vector<std::byte> payload(bound + 64, std::byte{0xa5});
      const std::size_t size =
          stack.codec->encode(ConstTensorView(x.data(), shape), key_of(0), std::span(payload).first(bound));
      ASSERT_LE(size, bound);
      if (stack.codec->traits().fixed_size) {
        EXPECT_EQ(size, bound);
      }
      for (std::size_t i = bound; i < payload.size(); ++i)
        ASSERT_EQ(payload[i], std::byte{0xa5}) << "wrote behind its payload";
      std::vector<float> out(x.size() + 32, -7.0f);
      stack.codec->decode(std::span(payload).first(size), key_of(0), TensorView(out.data(), shape));
      for (std::size_t i = x.size(); i < out.size(); ++i)
        ASSERT_EQ(out[i], -7.0f) << "wrote behind its tensor";
      out.resize(x.size());
      for (const float v : out) ASSERT_TRUE(std::isfinite(v));
      if (stack.codec->traits().lossless) {
        EXPECT_EQ(out, x);
      }
    }
}

// What benches call before they time: a codec that is right must never be called WRONG. Captured tensors are such numbers: they have eight bits, so many of them lie
// exactly between two values that a codec can send.
TEST(EveryCodec, AgreesWithItsOwnReferenceOnNumbersOfBf16) {
  const Shape shape{96, 200};
  std::vector<float> x = normal_numbers(shape.elements(), 6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(reference::to_bf16(x[i] * std::exp2(static_cast<float>(i / 200 % 7) - 3)));
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text());
    CodecStack stack = make(c, shape);
    const CodecInfo& info = codec_info(stack.expression.codec.name);
    if (!info.check || !stack.codec->traits().gather) continue;
    const auto payload = encode(stack, x, shape, key_of(0));
    const auto decoded = decode(stack, payload, shape, key_of(0));
    EXPECT_NO_THROW(info.check(stack, ConstTensorView(x.data(), shape), decoded));
  }
}

TEST(EveryCodec, AcceptsAnyAlignmentOfItsPayload) {
  const Shape shape{33, 21};
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text());
    CodecStack a = make(c, shape), b = make(c, shape);
    if (!a.codec->traits().gather) continue;
    const auto x = normal_numbers(shape.elements(), 3);
    const auto aligned = encode(a, x, shape, key_of(0));
    const auto expected = decode(a, aligned, shape, key_of(0));
    std::vector<std::byte> room(b.codec->max_payload_bytes(shape) + 1);  // what a sender has; a payload may be smaller
    ASSERT_EQ(b.codec->encode(ConstTensorView(x.data(), shape), key_of(0), std::span(room).subspan(1)), aligned.size());
    const auto odd = std::span(room).subspan(1, aligned.size());
    EXPECT_TRUE(std::equal(aligned.begin(), aligned.end(), odd.begin()))
        << "payloads of equal instances differ";
    EXPECT_EQ(decode(b, odd, shape, key_of(0)), expected);
  }
}

TEST(EveryCodec, DecodeAddIsDecodePlusWhatWasThere) {
  const Shape shape{19, 31};
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text());
    CodecStack stack = make(c, shape);
    if (!stack.codec->traits().gather) continue;
    const auto payload = encode(stack, normal_numbers(shape.elements(), 4), shape, key_of(0));
    const auto decoded = decode(stack, payload, shape, key_of(0));
    std::vector<float> sum(decoded.size(), 1.0f);
    stack.codec->decode_add(payload, key_of(0), TensorView(sum.data(), shape));
    for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], decoded[i] + 1.0f, 1e-5f) << i;
  }
}

TEST(EveryCodec, ResultsDoNotDependOnTheNumberOfThreads) {
  const Shape shape{520, 257};  // above the grain, below what a sanitizer makes slow
  const int before = omp_get_max_threads();
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text());
    const CodecTraits traits = make_codec(c.codec, c.form).codec->traits();
    if (!traits.gather || traits.reordered_sums)
      continue;  // sums of a BLAS depend on its threads
    const auto x = normal_numbers(shape.elements(), 5);
    std::vector<std::vector<std::byte>> payloads;
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 3}) {
      omp_set_num_threads(threads);
      CodecStack stack = make(c, shape);
      payloads.push_back(encode(stack, x, shape, key_of(0)));
      results.push_back(decode(stack, payloads.back(), shape, key_of(0)));
    }
    EXPECT_EQ(payloads[0], payloads[1]);
    EXPECT_EQ(results[0], results[1]);
  }
  omp_set_num_threads(before);
}

TEST(EveryCodec, PayloadsDoNotDependOnTheInstructionSet) {
  const Shape shape{9, 1043};  // whole blocks of several sizes, and rests of all
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text());
    const CodecTraits traits = make_codec(c.codec, c.form).codec->traits();
    if (!traits.gather || traits.reordered_sums) continue;
    auto x = normal_numbers(shape.elements(), 6);
    for (std::size_t i = 0; i < x.size(); i += 5) x[i] = i % 2 == 0 ? 0.0f : -0.0f;  // of both zeros one may be the least of a block
    for (std::size_t i = 0; i < 1043; ++i) x[i] = std::fabs(x[i]);
    CodecStack here = make(c, shape);
    const std::vector<std::byte> payload = encode(here, x, shape, key_of(0));
    testing::on_every_simd_target([&] {
      CodecStack there = make(c, shape);
      EXPECT_EQ(encode(there, x, shape, key_of(0)), payload);
    });
  }
}

// Either the damage is noticed (CorruptData), or a finite tensor comes out (a product of damaged factors may
// overflow, and NaN is a value of a lossless codec); never another error, never a read or
// write out of bounds (the asan-ubsan build runs this too).
void expect_harmless(CodecStack& stack, const std::vector<std::byte>& payload, Shape shape) {
  const std::vector<std::byte> exact(payload);
  try {
    for (const float v : decode(stack, exact, shape, key_of(0)))
      ASSERT_TRUE(std::isfinite(v) || stack.codec->traits().reordered_sums || stack.codec->traits().lossless);
  } catch (const CorruptData&) {
  }
}

TEST(EveryCodec, DamagedPayloadsAreRefusedOrHarmless) {
  const std::uint64_t seed = static_cast<std::uint64_t>(now_ns());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const Random random(seed, "damage");
  std::uint64_t draw = 0;
  for (const Case& c : all_cases())
    for (const Shape& shape : {Shape{7, 13}, Shape{3, 5, 17}, Shape{300, 300}}) {
      SCOPED_TRACE(c.text() + " " + shape.to_string());
      CodecStack stack = make(c, shape);
      if (!stack.codec->traits().gather || stack.codec->traits().identity)
        continue;  // any f32 bits are a tensor
      const auto payload = encode(stack, normal_numbers(shape.elements(), 6), shape, key_of(0));
      const int rounds = shape.elements() > 10000 ? 12 : 60;
      for (int i = 0; i < rounds; ++i) {
        auto damaged = payload;
        const std::uint64_t flips = 1 + random.below(draw++, 8);
        for (std::uint64_t f = 0; f < flips; ++f, draw += 2)
          damaged[random.below(draw, damaged.size())] ^=
              static_cast<std::byte>(1 + random.below(draw + 1, 255));
        expect_harmless(stack, damaged, shape);
      }
      for (const std::byte filler : {std::byte{0}, std::byte{0xff}, std::byte{0x7f}})
        expect_harmless(stack, std::vector<std::byte>(payload.size(), filler), shape);
      // Another size is always noticed.
      std::vector<float> out(static_cast<std::size_t>(shape.elements()));
      for (const std::size_t size :
           {std::size_t{0}, std::size_t{1}, payload.size() / 2, payload.size() - 1, payload.size() + 1}) {
        std::vector<std::byte> cut(payload);
        cut.resize(size);
        EXPECT_THROW(stack.codec->decode(cut, key_of(0), TensorView(out.data(), shape)), CorruptData)
            << size << " of " << payload.size() << " bytes";
      }
      EXPECT_EQ(decode(stack, payload, shape, key_of(0)), decode(stack, payload, shape, key_of(0)))
          << "the codec works after errors";
    }
}

TEST(EveryCodec, NanAndInfinityNameTheirPosition) {
  const Shape shape{17, 23};
  for (const Case& c : all_cases())
    for (const float bad : {std::nanf(""), INFINITY}) {
      SCOPED_TRACE(c.text());
      CodecStack stack = make(c, shape);
      if (!stack.codec->traits().gather) continue;
      auto x = normal_numbers(shape.elements(), 7);
      x[5 * 23 + 11] = bad;
      if (stack.codec->traits().lossless) {  // passes every value as it is
        EXPECT_EQ(
            std::isnan(decode(stack, encode(stack, x, shape, key_of(0)), shape, key_of(0))[5 * 23 + 11]),
            std::isnan(bad));
        continue;
      }
      try {
        encode(stack, x, shape, key_of(0));
        ADD_FAILURE() << "not refused";
      } catch (const NotRepresentable& e) {
        EXPECT_NE(std::string(e.what()).find("row 5, column 11"), std::string::npos) << e.what();
      }
    }
}

// Trainers flush subnormal numbers: a scale of a group, or its reciprocal, must not become what makes NaN of its numbers.
TEST(EveryCodec, TinyNumbersStayFiniteWhereSubnormalsAreFlushed) {
  const Shape shape{8, 32};
  std::vector<std::vector<float>> tensors;
  for (const float size : {1e-40f, 2e-38f, 1e-36f}) {
    tensors.push_back(normal_numbers(shape.elements(), 5));
    for (float& v : tensors.back()) v *= size;
  }
  const SubnormalsFlushed scope;
  for (const Case& c : all_cases())
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      SCOPED_TRACE(c.text() + ", tensor " + std::to_string(i));
      CodecStack stack = make(c, shape);
      if (!stack.codec->traits().gather) continue;
      for (const float v : decode(stack, encode(stack, tensors[i], shape, key_of(0)), shape, key_of(0))) ASSERT_TRUE(std::isfinite(v));
    }
}

TEST(EveryCodec, AllocatesNothingInTheSteadyState) {
  const Shape shape{80, 1024};  // above the grain
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2}) {
    omp_set_num_threads(threads);
    for (const Case& c : all_cases()) {
      SCOPED_TRACE(c.text() + ", threads " + std::to_string(threads));
      const CodecTraits traits = make_codec(c.codec, c.form).codec->traits();
      if (threads > 1 && traits.reordered_sums) continue;  // nothing of theirs depends on it, and BLAS threads spin
      CodecStack stack = make(c, shape);
      const auto x = normal_numbers(shape.elements(), 8);
      std::vector<float> out(x.size());
      std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
      const auto once = [&](std::int64_t step) {
        const MessageKey key = key_of(step);
        if (traits.gather) {
          const std::size_t size = stack.codec->encode(ConstTensorView(x.data(), shape), key, payload);
          stack.codec->decode(std::span(payload).first(size), key, TensorView(out.data(), shape));
          stack.codec->decode_add(std::span(payload).first(size), key, TensorView(out.data(), shape));
        }
        if (traits.rounds > 0) {
          for (int r = 0; r < traits.rounds; ++r) {
            const Round round = stack.codec->as<Rounds>()->begin_round(r, ConstTensorView(x.data(), shape), key, 1);
            std::memcpy(round.receive.data(), round.send.data(), round.send.size());
          }
          stack.codec->as<Rounds>()->end_rounds(key, 1, TensorView(out.data(), shape));
        }
      };
      const std::int64_t warm = 3;
      const auto step_of = [&](std::int64_t i) { return i % 2; };
      for (std::int64_t i = 0; i < warm; ++i) once(step_of(i));
      const long allocations = testing::allocations;
      for (std::int64_t i = warm; i < warm + 4; ++i) once(step_of(i));
      EXPECT_EQ(testing::allocations, allocations);
    }
  }
  omp_set_num_threads(before);
}

TEST(EveryCodec, HasTheCapabilitiesThatItsTraitsName) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text());
    const CodecStack stack = make_codec(c.codec, c.form);
    const CodecTraits& traits = stack.codec->traits();
    EXPECT_EQ(stack.codec->as<Rounds>() != nullptr, traits.rounds > 0);
    EXPECT_EQ(stack.codec->as<Backward>() != nullptr, traits.backward != BackwardRule::straight_through);
    EXPECT_TRUE(!traits.needs_fit || stack.codec->as<Fit>() != nullptr);
    EXPECT_TRUE(!traits.stateful || stack.codec->as<State>() != nullptr);
    EXPECT_TRUE(stack.codec->as<Products>() == nullptr || traits.reordered_sums);
    EXPECT_TRUE(!traits.positions_first || parse_codec(c.codec).codec.parameters.values().contains(traits.rows_parameter));
    EXPECT_EQ(traits.identity, stack.is_dense());
    EXPECT_EQ(traits.encode_goal > 0, traits.decode_goal > 0) << "a goal for one direction alone";
    for (const double goal : {traits.encode_goal, traits.decode_goal}) EXPECT_TRUE(goal >= 0 && goal <= 1) << goal;
  }
}

// What may be behind another message's mask (models/training/config/train_config.cpp): a list of what was kept is coded as a matrix of it would be.
TEST(EveryCodec, WhatIsFlatTakesAListAsItTakesAMatrixAndLeavesNoElementOut) {
  constexpr std::int64_t rows = 3, columns = 8192;  // whole blocks of every size
  const Shape matrix{rows, columns}, list{rows * columns};
  int flat = 0;
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text());
    const CodecTraits traits = make_codec(c.codec, c.form).codec->traits();
    if (!traits.flat) continue;
    ++flat;
    EXPECT_TRUE(traits.gather && !traits.stateful && !traits.needs_fit && !traits.by_sample && !traits.by_token);
    EXPECT_EQ(traits.backward, BackwardRule::straight_through);
    const auto x = normal_numbers(list.elements(), 11);
    CodecStack of_matrix = make(c, matrix), of_list = make(c, list);
    const auto payload = encode(of_matrix, x, matrix, key_of(0));
    EXPECT_EQ(encode(of_list, x, list, key_of(0)), payload);
    EXPECT_EQ(decode(of_list, payload, list, key_of(0)), decode(of_matrix, payload, matrix, key_of(0)));
    // Of equal magnitudes none is more worth sending than another. A code of one bit has no level for half of the signs.
    std::vector<float> equal(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) equal[i] = x[i] < 0 ? -1.0f : 1.0f;
    const auto decoded = decode(of_list, encode(of_list, equal, list, key_of(1)), list, key_of(1));
    EXPECT_GT(std::ranges::count_if(decoded, [](float v) { return v != 0; }), list.elements() * 2 / 5);
  }
  EXPECT_TRUE(flat > 0 || std::getenv("THINWIRE_TEST_CODEC") != nullptr);
  const auto is_flat = [](const char* codec) {
    const CodecStack stack = make_codec(codec);
    return stack.wrappers.empty() && stack.codec->traits().flat;
  };
  for (const char* codec : {"cast", "group:bits=8", "mx", "blockwise8", "fp8:scale=tensor", "lossless", "group+straight_through"}) EXPECT_TRUE(is_flat(codec)) << codec;
  for (const char* codec : {"topk", "randomk", "quantize", "powersgd", "sign", "tah", "fp8:scale=row", "codebook:scope=row", "group+hadamard", "group+delta", "none+subspace", "group+ef", "group+ef21"})
    EXPECT_FALSE(is_flat(codec)) << codec;
}

// A codec that takes f32 gets a bf16 tensor as the f32 numbers that it holds, and its result rounded.
TEST(EveryCodec, TakesBf16AsTheF32NumbersItHolds) {
  const Shape shape{19, 31};
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.text());
    CodecStack wide = make(c, shape), narrow = make(c, shape);
    if (!wide.codec->traits().gather || wide.codec->traits().takes_bf16) continue;
    auto x = normal_numbers(shape.elements(), 10);
    std::vector<BFloat16> x16(x.size()), out16(x.size()), expected(x.size());
    convert(std::span<const float>(x), std::span(x16));
    convert(std::span<const BFloat16>(x16), std::span(x));
    const auto payload = encode(wide, x, shape, key_of(0));
    std::vector<std::byte> payload16(narrow.codec->max_payload_bytes(shape));
    payload16.resize(narrow.codec->encode(ConstTensorView(x16.data(), shape), key_of(0), payload16));
    EXPECT_EQ(payload16, payload);
    const auto decoded = decode(wide, payload, shape, key_of(0));
    convert(std::span<const float>(decoded), std::span(expected));
    narrow.codec->decode(payload16, key_of(0), TensorView(out16.data(), shape));
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(out16[i].bits, expected[i].bits) << i;
    std::vector<double> values(x.size());
    EXPECT_THROW(narrow.codec->encode(ConstTensorView(values.data(), shape), key_of(0), payload16), UsageError);
  }
}

TEST(None, IsBitEqualAlsoThroughRounds) {
  const Shape shape{37, 41};
  auto ranks = testing::codec_of_every_rank("none", 3);
  std::vector<std::vector<float>> inputs;
  for (std::uint64_t r = 0; r < 3; ++r) inputs.push_back(normal_numbers(shape.elements(), r));
  const auto sum = testing::reduce_by_rounds(ranks, inputs, shape, key_of(0));
  for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], inputs[0][i] + inputs[1][i] + inputs[2][i]);
}

TEST(Cast, RoundsToNearestEvenAndKeepsSubnormals) {
  const Shape shape{999};
  auto x = normal_numbers(999, 9);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::exp2(static_cast<float>(i % 40) - 28);
  x[0] = 1 + 0x1p-11f;  // a tie in f16
  x[1] = 1 + 3 * 0x1p-11f;
  x[2] = 65519.0f;
  x[3] = -0.0f;
  for (const bool half : {true, false}) {
    CodecStack stack = make_codec(half ? "cast:to=f16" : "cast:to=bf16");
    const auto out = decode(stack, encode(stack, x, shape, key_of(0)), shape, key_of(0));
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(out[i], static_cast<float>(half ? reference::to_f16(x[i]) : reference::to_bf16(x[i])))
          << x[i];
  }
}

TEST(Cast, OverflowOfF16IsRefusedWithAdvice) {
  CodecStack stack = make_codec("cast");
  try {
    encode(stack, {1.0f, 65520.0f}, Shape{2}, key_of(0));
    FAIL() << "not refused";
  } catch (const NotRepresentable& e) {
    EXPECT_NE(std::string(e.what()).find("bf16"), std::string::npos) << e.what();
  }
  stack = make_codec("cast:to=bf16");
  EXPECT_EQ(decode(stack, encode(stack, {1.0f, 65536.0f}, Shape{2}, key_of(0)), Shape{2}, key_of(0))[1],
            65536.0f);
  try {
    encode(stack, {1.0f, 3.4e38f}, Shape{2}, key_of(0));
    FAIL() << "not refused";
  } catch (const NotRepresentable& e) {
    EXPECT_EQ(std::string(e.what()).find("use cast"), std::string::npos) << "no advice to do what was done: " << e.what();
  }
}

TEST(Cast, RoundsSumInTheWireTypeOnEveryRankAlike) {
  const Shape shape{29, 31};
  for (const char* expression : {"cast:to=f16", "cast:to=bf16"})
    for (const int world : {1, 2, 3, 4, 8}) {
      auto ranks = testing::codec_of_every_rank(expression, world);
      std::vector<std::vector<float>> inputs, sums;
      for (int r = 0; r < world; ++r)
        inputs.push_back(normal_numbers(shape.elements(), static_cast<std::uint64_t>(r)));
      const auto sum = testing::reduce_by_rounds(ranks, inputs, shape, key_of(0), &sums);
      const double unit = std::string(expression).ends_with("bf16") ? 0x1p-8 : 0x1p-11;
      for (std::size_t i = 0; i < sum.size(); ++i) {
        double exact = 0, magnitude = 0;
        for (const auto& x : inputs) exact += x[i], magnitude += std::abs(x[i]);
        ASSERT_NEAR(sum[i], exact, 2 * unit * magnitude * world) << expression << " " << world << " ranks";
      }
      for (const auto& other : sums) EXPECT_EQ(other, sum);
    }
}

}  // namespace
}  // namespace thinwire
