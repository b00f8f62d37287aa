// labels: unit
// optimised: yes
// The Hadamard transform against its matrix in float64, on every SIMD target; then +hadamard around codecs: what docs/papers/sharded_compression.md, "Worked examples"
// states, that every capability of a codec goes through it, and what is refused.
#include <gtest/gtest.h>

#include <omp.h>

#include <bit>
#include <cmath>

#include "kernels/codec/message.h"
#include "kernels/codec/transformed_codec.h"
#include "kernels/simd/hadamard.h"
#include "support/codec_expressions.h"
#include "support/codec_rounds.h"
#include "support/count_allocations.h"
#include "support/sent_payload.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using testing::relative_difference;

using Floats = std::vector<float>;

MessageKey key_of(std::int64_t step, Pass pass = Pass::train) {
  MessageKey key;
  key.tensor = hash_name("hadamard");
  key.step = step;
  key.pass = pass;
  return key;
}

Floats hadamard(const Floats& x, std::size_t block, const Floats& signs = {}, bool behind = false) {
  Floats y(x.size());
  simd::hadamard(x.data(), x.size(), block, signs.empty() ? nullptr : signs.data(), behind, y.data());
  return y;
}

// The matrix, block by block and then the powers of two of the rest.
std::vector<double> by_matrix(const Floats& x, std::size_t block) {
  std::vector<double> y(x.size());
  for (std::size_t first = 0; first < x.size();) {
    const std::size_t left = x.size() - first, size = left >= block ? block : std::bit_floor(left);
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) y[first + i] += (std::popcount(i & j) % 2 != 0 ? -1.0 : 1.0) * static_cast<double>(x[first + j]);
      y[first + i] /= std::sqrt(static_cast<double>(size));
    }
    first += size;
  }
  return y;
}

// The order of operations that kernels/simd/hadamard.h promises, one number after the other.
Floats by_butterflies(const Floats& x, std::size_t block, const Floats& signs, bool behind) {
  Floats y = x;
  for (std::size_t i = 0; i < y.size() && !behind; ++i) y[i] *= signs[i];
  for (std::size_t first = 0; first < y.size();) {
    const std::size_t left = y.size() - first, size = left >= block ? block : std::bit_floor(left);
    for (std::size_t stride = 1; stride < size; stride *= 2)
      for (std::size_t k = 0; k < size; ++k)
        if ((k & stride) == 0) {
          float &a = y[first + k], &b = y[first + k + stride];
          const float sum = a + b, difference = a - b;
          a = sum, b = difference;
        }
    const float scale = 1.0f / std::sqrt(static_cast<float>(size));
    for (std::size_t k = first; k < first + size; ++k) y[k] *= scale;
    first += size;
  }
  for (std::size_t i = 0; i < y.size() && behind; ++i) y[i] *= signs[i];
  return y;
}

constexpr std::size_t lengths[] = {0, 1, 2, 3, 5, 7, 8, 13, 16, 31, 32, 33, 61, 64, 100, 127, 1000, 1024, 1025, 4099};

TEST(HadamardTransform, IsItsMatrixWithEqualBitsOnEveryTarget) {
  for (std::size_t block = 2; block <= simd::largest_hadamard; block *= 2)
    for (const std::size_t n : lengths) {
      SCOPED_TRACE("block " + std::to_string(block) + ", " + std::to_string(n) + " elements");
      const Floats x = normal_numbers(static_cast<std::int64_t>(n), n + block);
      const std::vector<double> expected = by_matrix(x, block);
      Floats first;
      testing::on_every_simd_target([&] {
        const Floats y = hadamard(x, block);
        if (first.empty()) first = y;
        ASSERT_EQ(y, first);
        for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], expected[i], 3e-6) << i;
        Floats in_place = x;
        simd::hadamard(in_place.data(), n, block, nullptr, false, in_place.data());
        ASSERT_EQ(in_place, y);
      });
    }
}

TEST(HadamardTransform, IsItsOwnInverseAlsoWithSigns) {
  for (const std::size_t n : lengths) {
    const Floats x = normal_numbers(static_cast<std::int64_t>(n), n);
    Floats signs(n);
    for (std::size_t i = 0; i < n; ++i) signs[i] = i * i % 7 < 3 ? -1.0f : 1.0f;
    testing::on_every_simd_target([&] {
      for (const std::size_t block : {2u, 32u, 1024u}) {
        const Floats y = hadamard(x, block, signs), back = hadamard(y, block, signs, true);
        for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(back[i], x[i], 5e-6) << i;
        Floats signed_x = x;
        for (std::size_t i = 0; i < n; ++i) signed_x[i] *= signs[i];
        ASSERT_EQ(y, hadamard(signed_x, block)) << "signs come first";
      }
    });
  }
}

TEST(HadamardTransform, AddsInTheOrderThatIsPromisedOnEveryTarget) {
  for (std::size_t block = 2; block <= simd::largest_hadamard; block *= 2)
    for (const std::size_t n : lengths) {
      SCOPED_TRACE("block " + std::to_string(block) + ", " + std::to_string(n) + " elements");
      Floats x = normal_numbers(static_cast<std::int64_t>(n), n + 2 * block), signs(n), ones(n, 1.0f);
      for (std::size_t i = 0; i < n; ++i) signs[i] = i * i % 7 < 3 ? -1.0f : 1.0f;
      for (std::size_t i = 0; i < n; i += 3) x[i] = std::ldexp(x[i], static_cast<int>(i % 40) - 20);  // of many sizes, so that every rounding counts
      testing::on_every_simd_target([&] {
        ASSERT_EQ(hadamard(x, block), by_butterflies(x, block, ones, false));
        for (const bool behind : {false, true}) ASSERT_EQ(hadamard(x, block, signs, behind), by_butterflies(x, block, signs, behind));
      });
    }
}

TEST(HadamardTransform, FollowsTheWorkedExamples) {
  const float root = std::sqrt(32.0f);
  Floats x(32, 0.0f);
  x[0] = 1, x[1] = 2, x[31] = -1;
  const int first[] = {2, 0, 4, -2, 4, -2, 2, 0, 4, -2, 2, 0, 2, 0, 4, -2, 4, -2, 2, 0, 2, 0, 4, -2, 2, 0, 4, -2, 4, -2, 2, 0};
  Floats y = hadamard(x, 32);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_FLOAT_EQ(y[i] * root, static_cast<float>(first[i])) << i;
  x.assign(32, 1.0f);
  x[5] = 8;
  y = hadamard(x, 32);
  EXPECT_FLOAT_EQ(y[0] * root, 39.0f);
  for (std::size_t i = 1; i < 32; ++i) EXPECT_FLOAT_EQ(std::fabs(y[i] * root), 7.0f) << i;
}

// ---- around codecs ----

enum class Law { gaussian, laplace, student3, log_normal, outliers };

Floats numbers_of(Law law, std::int64_t count) {
  const Random random(20261123, "laws"), coin(20261123, "signs");
  Floats x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto at = [&](std::uint64_t k) { return random.normal(8 * i + k); };
    const double z = at(0);
    switch (law) {
      case Law::gaussian:
        x[i] = static_cast<float>(z);
        break;
      case Law::laplace:  // the difference of two exponentials is the product form z1 z2 + z3 z4
        x[i] = static_cast<float>(z * at(1) + at(2) * at(3));
        break;
      case Law::student3:
        x[i] = static_cast<float>(z / std::sqrt((at(1) * at(1) + at(2) * at(2) + at(3) * at(3)) / 3));
        break;
      case Law::log_normal:
        x[i] = static_cast<float>((coin.bits32(i) % 2 != 0 ? -1 : 1) * std::exp(1.5 * z));
        break;
      case Law::outliers:
        x[i] = static_cast<float>(coin.bits32(i) % 256 == 0 ? 20 * z : z);
        break;
    }
  }
  return x;
}

double error_of(const std::string& expression, const Floats& x, const Shape& shape) { return relative_difference(testing::send_payload(expression, x, shape).decoded, x); }

TEST(Hadamard, HelpsHeavyTailsAsMuchAsThePageSays) {
  const Shape shape{512, 1024};
  const struct {
    Law law;
    double plain, with, tolerance;
  } rows[] = {{Law::gaussian, .167, .167, .002}, {Law::laplace, .227, .167, .003}, {Law::student3, .333, .164, .015}, {Law::log_normal, .342, .149, .012}, {Law::outliers, .438, .156, .012}};
  const std::string group = "group:bits=4,group=128,round=stochastic";
  for (const auto& row : rows) {
    SCOPED_TRACE(static_cast<int>(row.law));
    const Floats x = numbers_of(row.law, shape.elements());
    const double plain = error_of(group, x, shape), with = error_of(group + "+hadamard", x, shape), keyed = error_of(group + "+hadamard:signs=keyed", x, shape);
    std::printf("plain %.4f (%.3f)  H32 %.4f (%.3f)  with signs %.4f\n", plain, row.plain, with, row.with, keyed);
    EXPECT_NEAR(plain, row.plain, row.tolerance);
    EXPECT_NEAR(with, row.with, row.tolerance);
    EXPECT_NEAR(keyed, with, row.tolerance);
  }
  EXPECT_NEAR(error_of("group:bits=8,group=128,round=stochastic+hadamard", numbers_of(Law::gaussian, shape.elements()), shape), .009, .0005);
}

void expect_the_rotated(const std::string& inside, const Shape& shape) {
  SCOPED_TRACE(inside + " " + shape.to_string());
  const Floats x = normal_numbers(shape.elements(), 3);
  Floats rotated(x.size());
  const auto columns = static_cast<std::size_t>(shape.columns());
  for (std::size_t at = 0; at < x.size(); at += columns) simd::hadamard(x.data() + at, columns, 64, nullptr, false, rotated.data() + at);
  testing::SentPayload expected = testing::send_payload(inside, rotated, shape);
  for (std::size_t at = 0; at < x.size(); at += columns) simd::hadamard(expected.decoded.data() + at, columns, 64, nullptr, true, expected.decoded.data() + at);
  const testing::SentPayload sent = testing::send_payload(inside + "+hadamard:block=64", x, shape);
  EXPECT_EQ(sent.bytes, expected.bytes);
  EXPECT_EQ(sent.decoded, expected.decoded);
}

// Codecs that go stripe by stripe with the transform, and those that cannot: groups that are no multiple of the block, a scale of the whole tensor, blocks across rows.
TEST(Hadamard, GivesTheCodecTheRotatedTensorAndTurnsItsResultBack) {
  for (const char* inside : {"group", "group:bits=3,round=stochastic", "group:group=48", "group:bits=8,range=affine,group=8192", "fp8", "fp8:scale=tensor", "mx", "qsgd", "spike", "blockwise8", "quantize:bits=4",
                             "topk:fraction=0.3", "cast:to=bf16", "nvfp4"})
    for (const Shape& shape : {Shape{1}, Shape{7, 13}, Shape{3, 5, 17}, Shape{1, 127}, Shape{127, 1}, Shape{9, 96}, Shape{3, 9001}, Shape{0, 8}}) expect_the_rotated(inside, shape);
  expect_the_rotated("group", Shape{2100, 1024});  // more than 8 MiB, which the codec alone would write past the caches
}

TEST(Hadamard, AimsAtHalfOfTheBoundAtMost) {
  const auto goals = [](const char* codec) {
    const CodecStack stack = make_codec(codec);
    return std::pair(stack.codec->traits().encode_goal, stack.codec->traits().decode_goal);
  };
  EXPECT_EQ(goals("group"), std::pair(0.7, 0.75));
  EXPECT_EQ(goals("group+hadamard"), std::pair(0.5, 0.5));
  EXPECT_EQ(goals("group:round=stochastic+hadamard"), std::pair(0.3, 0.5));
  EXPECT_EQ(goals("tah+hadamard"), std::pair(0.0, 0.0));
}

TEST(Hadamard, RefusesNumbersThatItsSumsTakeBeyondF32) {
  for (const char* expression : {"group+hadamard", "group:group=48+hadamard"}) EXPECT_THROW(testing::send_payload(expression, Floats(64, 3e38f), Shape{2, 32}), RuntimeFailure) << expression;
  // The tensor has nothing to mend but its scale, whatever the codec inside says of what it saw.
  for (const char* expression : {"topk+hadamard", "sign+hadamard", "tah+hadamard"})
    try {
      testing::send_payload(expression, Floats(64, 3e38f), Shape{2, 32});
      ADD_FAILURE() << expression;
    } catch (const NotRepresentable& error) {
      EXPECT_NE(std::string(error.what()).find("what a transform made of"), std::string::npos) << error.what();
    }
}

// Every codec that is taken at all, with its defaults.
std::vector<std::string> around_every_codec() {
  std::vector<std::string> all;
  for (const testing::CodecCase& c : testing::codec_cases()) {
    if (c.form == Form::released || c.codec.find(':') != std::string::npos) continue;
    if (make_codec(c.codec).codec->traits().lossless) {
      EXPECT_THROW(parse_codec(c.codec + "+hadamard"), UsageError) << c.codec;
      continue;
    }
    all.push_back(c.codec + "+hadamard:block=16");
  }
  return all;
}

void fit_where_needed(CodecStack& stack, std::int64_t columns) {
  if (!stack.codec->traits().needs_fit) return;
  const Floats sample = normal_numbers(64 * columns, 1);
  const ConstTensorView view(sample.data(), Shape{64, columns});
  stack.codec->as<Fit>()->fit({&view, 1});
}

TEST(Hadamard, HasTheCapabilitiesOfTheCodecInsideAndNoOthers) {
  for (const std::string& expression : around_every_codec()) {
    SCOPED_TRACE(expression);
    const CodecStack stack = make_codec(expression), plain = make_codec(expression.substr(0, expression.find('+')));
    const Codec &with = *stack.codec, &without = *plain.codec;
    EXPECT_EQ(with.as<Rounds>() != nullptr, without.as<Rounds>() != nullptr);
    EXPECT_EQ(with.as<Backward>() != nullptr, without.as<Backward>() != nullptr);
    EXPECT_EQ(with.as<Fit>() != nullptr, without.as<Fit>() != nullptr);
    EXPECT_EQ(with.as<State>() != nullptr, without.as<State>() != nullptr);
    EXPECT_EQ(with.as<Trainable>() != nullptr, without.as<Trainable>() != nullptr);
    EXPECT_EQ(with.as<Products>() != nullptr, without.as<Products>() != nullptr);
    EXPECT_EQ(with.as<DeviceHalf>(), nullptr);
    EXPECT_EQ(with.as<Rounds>() != nullptr, with.traits().rounds > 0);
    EXPECT_EQ(with.as<Backward>() != nullptr, with.traits().backward != BackwardRule::straight_through);
    EXPECT_FALSE(with.traits().takes_bf16);
  }
}

TEST(Hadamard, SumsByRoundsAreTheSumsOfTheRotatedTurnedBack) {
  const Shape shape{12, 20};
  for (const std::string& expression : around_every_codec()) {
    const std::string inside = expression.substr(0, expression.find('+'));
    if (make_codec(expression).codec->traits().rounds == 0) continue;
    SCOPED_TRACE(expression);
    auto ranks = testing::codec_of_every_rank(expression, 3), bare = testing::codec_of_every_rank(inside, 3);
    // What a fitted codec would learn from rotated samples, the bare one learns from samples that are rotated here.
    Floats sample = normal_numbers(64 * 20, 1), rotated = sample;
    for (std::size_t at = 0; at < rotated.size(); at += 20) simd::hadamard(rotated.data() + at, 20, 16, nullptr, false, rotated.data() + at);
    std::vector<Floats> inputs, turned;
    for (std::uint64_t r = 0; r < 3; ++r) {
      inputs.push_back(normal_numbers(shape.elements(), 100 + r));
      turned.push_back(inputs.back());
      for (std::size_t at = 0; at < turned.back().size(); at += 20) simd::hadamard(turned.back().data() + at, 20, 16, nullptr, false, turned.back().data() + at);
      if (!ranks[r].codec->traits().needs_fit) continue;
      const ConstTensorView view(sample.data(), Shape{64, 20}), turned_view(rotated.data(), Shape{64, 20});
      ranks[r].codec->as<Fit>()->fit({&view, 1});
      bare[r].codec->as<Fit>()->fit({&turned_view, 1});
    }
    const Floats sum = testing::reduce_by_rounds(ranks, inputs, shape, key_of(0));
    Floats expected = testing::reduce_by_rounds(bare, turned, shape, key_of(0));
    const auto turn_back = [](Floats& x) {
      for (std::size_t at = 0; at < x.size(); at += 20) simd::hadamard(x.data() + at, 20, 16, nullptr, true, x.data() + at);
    };
    turn_back(expected);
    EXPECT_EQ(sum, expected);
    if (ranks[0].codec->traits().feedback != FeedbackSource::own_decoded) continue;
    Floats own(sum.size()), expected_own(sum.size());
    ranks[1].codec->as<Rounds>()->own_decoded(key_of(0), TensorView(own.data(), shape));
    bare[1].codec->as<Rounds>()->own_decoded(key_of(0), TensorView(expected_own.data(), shape));
    turn_back(expected_own);
    EXPECT_EQ(own, expected_own);
  }
}

// encode_backward(decode_backward(.)) is the transpose of decode(encode(.)) where the kept positions stand still: <g, J x> = <J^T g, x>.
TEST(Hadamard, BackwardIsTheTransposeOfForward) {
  const Shape shape{6, 24};
  for (const char* expression : {"topk:fraction=0.2,values=f32+hadamard", "randomk:fraction=0.3+hadamard:signs=keyed", "autoencoder:width=5,wire=f32+hadamard:block=8"}) {
    SCOPED_TRACE(expression);
    CodecStack stack = make_codec(expression);
    fit_where_needed(stack, shape.columns());
    stack.codec->as<Backward>()->remember_messages(true);
    const Floats x = normal_numbers(shape.elements(), 5), g = normal_numbers(shape.elements(), 6);
    std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
    payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), key_of(0), payload));
    Floats out(x.size()), back(x.size()), both = g;
    stack.codec->decode(payload, key_of(0), TensorView(out.data(), shape));
    Backward& rule = *stack.codec->as<Backward>();
    const Shape small = rule.travel_shape(shape);
    Floats travel(static_cast<std::size_t>(small.elements()));
    rule.decode_backward(ConstTensorView(g.data(), shape), key_of(0), TensorView(travel.data(), small));
    rule.encode_backward(ConstTensorView(travel.data(), small), key_of(0), TensorView(back.data(), shape));
    rule.reduction_backward(ConstTensorView(both.data(), shape), key_of(0), TensorView(both.data(), shape));
    double forward = 0, backward = 0;
    for (std::size_t i = 0; i < x.size(); ++i) forward += static_cast<double>(g[i] * out[i]), backward += static_cast<double>(back[i] * x[i]);
    EXPECT_NEAR(forward, backward, 2e-2) << "to the rounding of f16 values, where they are";
    EXPECT_LT(relative_difference(both, back), 1e-6) << "in a reduction, too";
  }
}

TEST(Hadamard, StaysOutsideOfErrorFeedbackWhichIsInTheTensorsOwnDomain) {
  const Shape shape{8, 40};
  CodecStack stack = make_codec("topk:fraction=0.1+hadamard+ef"), receiver = make_codec("topk:fraction=0.1+hadamard+ef");
  MessageScratch scratch;
  std::vector<double> received(320), applied(320);
  for (int step = 0; step < 30; ++step) {
    const Floats x = normal_numbers(320, static_cast<std::uint64_t>(step % 5));
    std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
    const std::size_t bytes = encode_message(stack, ConstTensorView(x.data(), shape), key_of(step), payload, scratch);
    Floats out(320);
    decode_message(receiver, std::span(payload).first(bytes), key_of(step), TensorView(out.data(), shape));
    for (std::size_t i = 0; i < 320; ++i) received[i] += x[i], applied[i] += out[i];
  }
  Floats stored(320, 0.0f);
  stack.before_encode(TensorView(stored.data(), shape), key_of(30));
  for (std::size_t i = 0; i < 320; ++i) applied[i] += stored[i];
  EXPECT_LT(relative_difference(applied, received), 1e-5) << "applied + stored = received";
}

TEST(Hadamard, ResultsDependNeitherOnThreadsNorOnTheTarget) {
  const Shape shape{130, 1037};
  const Floats x = normal_numbers(shape.elements(), 8);
  const int before = omp_get_max_threads();
  std::vector<testing::SentPayload> results;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    testing::on_every_simd_target([&] { results.push_back(testing::send_payload("group:round=stochastic+hadamard:block=128,signs=keyed", x, shape)); });
  }
  omp_set_num_threads(before);
  for (const auto& result : results) {
    EXPECT_EQ(result.bytes, results[0].bytes);
    EXPECT_EQ(result.decoded, results[0].decoded);
  }
}

TEST(Hadamard, KeyedSignsDifferFromMessageToMessageAndAreEqualOnBothEnds) {
  const Shape shape{4, 64};
  const Floats x = normal_numbers(256, 9);
  const std::string keyed = "cast:to=bf16+hadamard:signs=keyed";
  EXPECT_NE(testing::send_payload(keyed, x, shape, 0).bytes, testing::send_payload(keyed, x, shape, 1).bytes);
  EXPECT_EQ(testing::send_payload(keyed, x, shape, 3).bytes, testing::send_payload(keyed, x, shape, 3).bytes);
  EXPECT_LT(relative_difference(testing::send_payload(keyed, x, shape, 1).decoded, x), 4e-3);
}

TEST(Hadamard, NamesThePositionOfNanInTheTensorItself) {
  CodecStack stack = make_codec("group+hadamard");
  const Shape shape{17, 23};
  Floats x = normal_numbers(shape.elements(), 7);
  x[5 * 23 + 11] = INFINITY;
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  try {
    stack.codec->encode(ConstTensorView(x.data(), shape), key_of(0), payload);
    FAIL() << "not refused";
  } catch (const RuntimeFailure& e) {
    EXPECT_NE(std::string(e.what()).find("row 5, column 11"), std::string::npos) << e.what();
  }
}

TEST(Hadamard, AddsWhatItDecodesAndTakesBf16) {
  const Shape shape{19, 31};
  const Floats x = normal_numbers(shape.elements(), 10);
  CodecStack stack = make_codec("group+hadamard");
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  stack.codec->encode(ConstTensorView(x.data(), shape), key_of(0), payload);
  Floats out(x.size()), sum(x.size(), 1.0f);
  stack.codec->decode(payload, key_of(0), TensorView(out.data(), shape));
  stack.codec->decode_add(payload, key_of(0), TensorView(sum.data(), shape));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(sum[i], 1.0f + out[i]);
  std::vector<BFloat16> narrow(x.size());
  EXPECT_NO_THROW(stack.codec->decode(payload, key_of(0), TensorView(narrow.data(), shape)));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(narrow[i].bits, to_bfloat16(out[i]).bits);
  payload.pop_back();
  EXPECT_THROW(stack.codec->decode(payload, key_of(0), TensorView(out.data(), shape)), CorruptData);
}

TEST(Hadamard, AllocatesNothingInTheSteadyState) {
  const Shape shape{80, 1024};
  const Floats x = normal_numbers(shape.elements(), 8);
  CodecStack stack = make_codec("group+hadamard:signs=keyed");
  Floats out(x.size());
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  const auto once = [&](std::int64_t step) {
    stack.codec->encode(ConstTensorView(x.data(), shape), key_of(step), payload);
    stack.codec->decode(payload, key_of(step), TensorView(out.data(), shape));
    stack.codec->decode_add(payload, key_of(step), TensorView(out.data(), shape));
  };
  once(0);
  const long before = testing::allocations;
  for (std::int64_t step = 1; step < 5; ++step) once(step);
  EXPECT_EQ(testing::allocations, before);
}

void expect_refusal(const std::string& expression, const std::vector<std::string>& parts) {
  try {
    parse_codec(expression);
    ADD_FAILURE() << expression << " was taken";
  } catch (const UsageError& e) {
    for (const std::string& part : parts) EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(Hadamard, IsRefusedWhereItCannotBeOrGainsNothing) {
  expect_refusal("group+ef+hadamard:block=64", {"write group+hadamard:block=64+ef", "stands behind"});
  expect_refusal("none+hadamard", {"loses nothing", "drop +hadamard"});
  expect_refusal("powersgd+hadamard:signs=keyed", {"signs=none"});
  expect_refusal("group+hadamard:block=48", {"one of: 2, 4, 8"});
  expect_refusal("group+ef+lep", {"ef and lep", "one of them"});
  EXPECT_EQ(parse_codec("group+hadamard:block=32,signs=none+ef").canonical(), "group+hadamard+ef");
}

}  // namespace
}  // namespace thinwire
