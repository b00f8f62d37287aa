// labels: unit
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/codec/codecs/learned/autoencoder.h"
#include "support/codec_rounds.h"
#include "support/count_allocations.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using testing::relative_difference;

AutoencoderOptions xavier(std::int64_t width, DType wire = DType::f32) {
  AutoencoderOptions o;
  o.width = width;
  o.wire = wire;
  o.start = AutoencoderOptions::Start::xavier;
  return o;
}

std::vector<float> round_trip(Codec& codec, const std::vector<float>& x, Shape shape, MessageKey key = {}) {
  std::vector<std::byte> payload(codec.max_payload_bytes(shape));
  payload.resize(codec.encode(ConstTensorView(x.data(), shape), key, payload));
  std::vector<float> out(x.size(), -7.0f);
  codec.decode(payload, key, TensorView(out.data(), shape));
  return out;
}

// Rows in a space of `rank` directions plus a little noise: what activations look like to an auto-encoder.
std::vector<float> low_rank_rows(std::int64_t rows, std::int64_t columns, std::int64_t rank, float noise, std::uint64_t seed) {
  const auto directions = normal_numbers(rank * columns, 77);
  const auto weights = normal_numbers(rows * rank, seed);
  auto x = normal_numbers(rows * columns, seed + 1);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      float& v = x[static_cast<std::size_t>(i * columns + j)];
      v *= noise;
      for (std::int64_t k = 0; k < rank; ++k) v += weights[static_cast<std::size_t>(i * rank + k)] * directions[static_cast<std::size_t>(k * columns + j)];
    }
  return x;
}

TEST(Autoencoder, EqualsTheFloat64Reference) {
  for (const auto& [shape, e] : {std::pair<Shape, std::int64_t>{{1, 1}, 1}, {{7, 5}, 3}, {{2, 13, 31}, 4}, {{101, 64}, 64}, {{17}, 2}}) {
    Autoencoder codec(xavier(e));
    const auto x = normal_numbers(shape.elements(), 3);
    const std::int64_t n = shape.rows(), h = shape.columns();
    const auto encoder = codec.encoder(h), decoder = codec.decoder(h);
    std::vector<double> expected(x.size(), 0.0);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t k = 0; k < e; ++k) {
        double code = 0;
        for (std::int64_t j = 0; j < h; ++j) code += double{x[i * h + j]} * encoder[k * h + j];
        for (std::int64_t j = 0; j < h; ++j) expected[i * h + j] += code * decoder[j * e + k];
      }
    EXPECT_LT(relative_difference(round_trip(codec, x, shape), expected), 1e-5) << shape.to_string();
    // decode_add adds to what is there.
    std::vector<std::byte> payload(codec.max_payload_bytes(shape));
    codec.encode(ConstTensorView(x.data(), shape), {}, payload);
    std::vector<float> sum = x;
    codec.decode_add(payload, {}, TensorView(sum.data(), shape));
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] += x[i];
    EXPECT_LT(relative_difference(sum, expected), 1e-5);
  }
}

TEST(Autoencoder, FullWidthIdentityIsLossless) {
  const std::int64_t h = 12;
  Autoencoder codec(xavier(h));
  std::vector<float> identity(h * h, 0.0f);
  for (std::int64_t i = 0; i < h; ++i) identity[i * h + i] = 1;
  codec.set_weights(h, identity, identity);
  const auto x = normal_numbers(9 * h, 1);
  EXPECT_EQ(round_trip(codec, x, {9, h}), x);
}

TEST(Autoencoder, ReducesTheSumOfAllRanksByItsCode) {
  for (int world : {2, 3, 4}) {
    const Shape shape{3, 5, 16};
    auto ranks = testing::codec_of_every_rank("autoencoder:width=6,init=xavier,wire=f32", world);
    std::vector<std::vector<float>> inputs;
    std::vector<float> total(static_cast<std::size_t>(shape.elements()), 0.0f);
    for (int r = 0; r < world; ++r) {
      inputs.push_back(normal_numbers(shape.elements(), 40 + static_cast<std::uint64_t>(r)));
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += inputs.back()[i];
    }
    auto single = make_codec("autoencoder:width=6,init=xavier,wire=f32");
    const auto expected = round_trip(*single.codec, total, shape);
    EXPECT_LT(relative_difference(testing::reduce_by_rounds(ranks, inputs, shape, {}), expected), 1e-5) << world << " ranks";
    // What a rank contributed decodes to the auto-encoder of its own input.
    std::vector<float> own(total.size());
    ranks[1].codec->as<Rounds>()->own_decoded({}, TensorView(own.data(), shape));
    EXPECT_LT(relative_difference(own, round_trip(*single.codec, inputs[1], shape)), 1e-6);
  }
}

TEST(Autoencoder, PrincipalStartIsTheBestRankEApproximation) {
  const std::int64_t n = 200, h = 24, e = 5;
  const auto x = low_rank_rows(n, h, e, 0.0f, 5);
  CodecStack exact = make_codec("autoencoder:width=5,wire=f32");
  const ConstTensorView view(x.data(), Shape{n, h});
  exact.codec->as<Fit>()->fit(std::span(&view, 1));
  EXPECT_LT(relative_difference(round_trip(*exact.codec, x, {n, h}), x), 1e-5) << "data of rank e is kept";
  // Held-out rows of the same space are kept, too; rows outside it are not.
  const auto other = low_rank_rows(50, h, e, 0.0f, 99);
  EXPECT_LT(relative_difference(round_trip(*exact.codec, other, {50, h}), other), 1e-5);
  EXPECT_GT(relative_difference(round_trip(*exact.codec, normal_numbers(50 * h, 3), {50, h}), normal_numbers(50 * h, 3)), 0.5);
}

TEST(Autoencoder, WideTensorsUseSubspaceIterationAndStayOptimal) {
  const std::int64_t n = 160, h = 1300, e = 8;
  const auto x = low_rank_rows(n, h, e, 0.02f, 5);
  CodecStack stack = make_codec("autoencoder:width=8,wire=f32");
  const ConstTensorView view(x.data(), Shape{n, h});
  stack.codec->as<Fit>()->fit(std::span(&view, 1));
  // The noise outside the e directions is all that may be lost: 0.02 / sqrt(e) of the energy.
  EXPECT_LT(relative_difference(round_trip(*stack.codec, x, {n, h}), x), 0.02 / std::sqrt(8.0) * 1.05);
}

TEST(Autoencoder, AdamBringsARandomStartCloseToTheOptimum) {
  const std::int64_t n = 600, h = 32, e = 6;
  const auto x = low_rank_rows(n, h, e, 0.05f, 5);
  const ConstTensorView view(x.data(), Shape{n, h});
  CodecStack trained = make_codec("autoencoder:width=6,wire=f32,init=xavier,steps=1500"), best = make_codec("autoencoder:width=6,wire=f32");
  CodecStack start = make_codec("autoencoder:width=6,wire=f32,init=xavier");
  for (CodecStack* stack : {&trained, &best}) stack->codec->as<Fit>()->fit(std::span(&view, 1));
  const auto other = low_rank_rows(100, h, e, 0.05f, 1234);
  const auto error = [&](CodecStack& s) { return relative_difference(round_trip(*s.codec, other, {100, h}), other); };
  EXPECT_GT(error(start), 0.9);
  EXPECT_LT(error(trained), 2 * error(best));
  EXPECT_LT(error(best), 0.03);
}

TEST(Autoencoder, FitIsBitEqualOnRanksWithEqualSamples) {
  const auto x = low_rank_rows(120, 20, 4, 0.3f, 8);
  const ConstTensorView view(x.data(), Shape{120, 20});
  auto ranks = testing::codec_of_every_rank("autoencoder:width=4,steps=20", 2);
  for (CodecStack& r : ranks) r.codec->as<Fit>()->fit(std::span(&view, 1));
  EXPECT_EQ(round_trip(*ranks[0].codec, x, {120, 20}), round_trip(*ranks[1].codec, x, {120, 20}));
}

TEST(Autoencoder, AnOrthonormalStartIsAProjectionEqualOnAllRanksAndDifferentPerSeedAndTensor) {
  AutoencoderOptions o = xavier(5);
  o.start = AutoencoderOptions::Start::orthonormal;
  Autoencoder codec(o), other_rank(o);
  const std::int64_t h = 17;
  const auto E = codec.encoder(h), D = codec.decoder(h);
  for (std::int64_t a = 0; a < 5; ++a)
    for (std::int64_t b = 0; b < 5; ++b) {
      double product = 0;
      for (std::int64_t j = 0; j < h; ++j) product += double{E[a * h + j]} * D[j * 5 + b];
      EXPECT_NEAR(product, a == b ? 1 : 0, 1e-5);
    }
  const auto x = normal_numbers(8 * h, 3);
  const auto once = round_trip(codec, x, {8, h});
  EXPECT_LT(relative_difference(round_trip(codec, once, {8, h}), once), 1e-5) << "a projection";
  EXPECT_EQ(round_trip(other_rank, x, {8, h}), once);
  o.seed = 1;
  Autoencoder reseeded(o);
  EXPECT_GT(relative_difference(round_trip(reseeded, x, {8, h}), once), 0.1);
  codec.prepare_training(hash_name("a"), h);
  codec.prepare_training(hash_name("b"), h);
  const auto parameters = codec.trainable();
  EXPECT_GT(relative_difference(parameters[0].value, parameters[2].value), 0.1);
  EXPECT_THROW(codec.prepare_training(0, h), UsageError);
}

TEST(Autoencoder, AResidualStartSendsTheFirstChannels) {
  for (const std::int64_t h : {17, 5}) {
    CodecStack stack = make_codec("autoencoder:width=5,wire=f32,init=residual");
    const auto x = normal_numbers(8 * h, 3);
    auto expected = x;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (static_cast<std::int64_t>(i) % h >= 5) expected[i] = 0;
    EXPECT_EQ(round_trip(*stack.codec, x, {8, h}), expected);
  }
}

TEST(Autoencoder, TrainingStartsFromAFitWhereThereIsOne) {
  CodecStack stack = make_codec("autoencoder:width=4,wire=f32");
  EXPECT_THROW(stack.codec->as<Trainable>()->prepare_training(1, 20), UsageError) << "init=pca must be fitted first";
  const auto x = low_rank_rows(120, 20, 4, 0.0f, 8);
  const ConstTensorView view(x.data(), Shape{120, 20});
  stack.codec->as<Fit>()->fit(std::span(&view, 1));
  stack.codec->as<Trainable>()->prepare_training(1, 20);
  MessageKey key;
  key.tensor = 1;
  EXPECT_LT(relative_difference(round_trip(*stack.codec, x, {120, 20}, key), x), 1e-5);
  stack.codec->as<Trainable>()->trainable()[1].value[0] += 1;
  EXPECT_GT(relative_difference(round_trip(*stack.codec, x, {120, 20}, key), x), 1e-2);
  EXPECT_LT(relative_difference(round_trip(*stack.codec, x, {120, 20}), x), 1e-5) << "other tensors keep the fitted weights";
}

TEST(Autoencoder, IsRefusedBeforeItsFitAndWiderThanItsTensor) {
  CodecStack pca = make_codec("autoencoder:width=4");
  EXPECT_TRUE(pca.codec->traits().needs_fit);
  EXPECT_THROW(round_trip(*pca.codec, normal_numbers(40, 1), {4, 10}), UsageError);
  CodecStack wide = make_codec("autoencoder:width=11,init=xavier");
  EXPECT_FALSE(wide.codec->traits().needs_fit);
  EXPECT_THROW(round_trip(*wide.codec, normal_numbers(40, 1), {4, 10}), UsageError);
  EXPECT_THROW(pca.codec->as<Fit>()->fit({}), UsageError);
}

TEST(Autoencoder, AFitThatWouldNeedHugeCovariancesIsRefused) {
  CodecStack stack = make_codec("autoencoder");
  const std::vector<float> wide(20'000, 1.0f);
  const ConstTensorView row(wide.data(), Shape{1, 20'000});
  EXPECT_THROW(stack.codec->as<Fit>()->fit(std::span(&row, 1)), UsageError);
}

TEST(Autoencoder, WidthFollowsTheFractionOfTheColumns) {
  AutoencoderOptions o;
  o.fraction = 50.0 / 1024;
  EXPECT_EQ(Autoencoder(o).width_for(1024), 50);
  EXPECT_EQ(Autoencoder(o).width_for(512), 25);
  EXPECT_EQ(Autoencoder(o).width_for(3), 1);
  EXPECT_EQ(Autoencoder(o).max_payload_bytes({8, 128, 1024}), 2u * 8 * 128 * 50);
}

// loss = sum_i w_i out_i, so the gradient of the decoded tensor is w; all maps are linear in each argument,
// therefore central differences are exact up to rounding.
TEST(Autoencoder, BackwardPairAndWeightGradientsMatchFiniteDifferences) {
  const std::int64_t n = 6, h = 7, e = 3;
  const Shape shape{n, h};
  Autoencoder codec(xavier(e));
  const auto w = normal_numbers(n * h, 2);
  auto x = normal_numbers(n * h, 1);
  const auto loss = [&] {
    const auto out = round_trip(codec, x, shape);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += double{out[i]} * w[i];
    return sum;
  };
  ASSERT_EQ(codec.travel_shape(shape), (Shape{n, e}));
  std::vector<float> travel(n * e), input_gradient(n * h), code(n * e), ge(e * h, 0.0f), gd(h * e, 0.0f);
  codec.decode_backward(ConstTensorView(w.data(), shape), {}, TensorView(travel.data(), Shape{n, e}));
  codec.encode_backward(ConstTensorView(travel.data(), Shape{n, e}), {}, TensorView(input_gradient.data(), shape));
  codec.encode(ConstTensorView(x.data(), shape), {}, std::as_writable_bytes(std::span(code)));
  codec.encoder_gradient(ConstTensorView(x.data(), shape), ConstTensorView(travel.data(), Shape{n, e}), ge);
  codec.decoder_gradient(ConstTensorView(w.data(), shape), ConstTensorView(code.data(), Shape{n, e}), gd);
  const auto check = [&](std::span<float> variable, const std::vector<float>& gradient, const char* what) {
    for (std::size_t i = 0; i < variable.size(); ++i) {
      const float old = variable[i];
      variable[i] = old + 0.25f;
      const double up = loss();
      variable[i] = old - 0.25f;
      const double down = loss();
      variable[i] = old;
      EXPECT_NEAR((up - down) / 0.5, gradient[i], 2e-4 * (1 + std::abs(gradient[i]))) << what << " " << i;
    }
  };
  check(x, input_gradient, "input");
  check(codec.encoder(h), ge, "encoder");
  check(codec.decoder(h), gd, "decoder");
}

TEST(Autoencoder, RefusesCorruptPayloadsAndNamesBadInputs) {
  const Shape shape{4, 10};
  auto x = normal_numbers(40, 1);
  for (const char* text : {"autoencoder:width=3,init=xavier", "autoencoder:width=3,init=xavier,wire=f32"}) {
    CodecStack stack = make_codec(text);
    std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
    stack.codec->encode(ConstTensorView(x.data(), shape), {}, payload);
    std::vector<float> out(40);
    const auto decode = [&](std::span<const std::byte> bytes) { stack.codec->decode(bytes, {}, TensorView(out.data(), shape)); };
    for (std::size_t length = 0; length < payload.size(); ++length) EXPECT_THROW(decode(std::span(payload).first(length)), CorruptData);
    std::vector<std::byte> longer = payload;
    longer.push_back(std::byte{1});
    EXPECT_THROW(decode(longer), CorruptData);
    // A payload at an odd address (a view into a larger message) decodes all the same.
    std::vector<std::byte> shifted(payload.size() + 1);
    std::memcpy(shifted.data() + 1, payload.data(), payload.size());
    const auto expected = round_trip(*stack.codec, x, shape);
    decode(std::span(shifted).subspan(1));
    EXPECT_EQ(out, expected);
    for (std::size_t i = 0; i < 4; ++i) payload[4 + i] = std::byte{0xff};
    EXPECT_THROW(decode(payload), CorruptData);
    for (float bad : {NAN, INFINITY}) {
      auto broken = x;
      broken[17] = bad;
      try {
        round_trip(*stack.codec, broken, shape);
        ADD_FAILURE();
      } catch (const RuntimeFailure& error) {
        EXPECT_NE(std::string(error.what()).find("17"), std::string::npos) << error.what();
      }
    }
  }
  CodecStack half = make_codec("autoencoder:width=3,init=xavier");
  for (float& v : x) v *= 1e6f;
  EXPECT_THROW(round_trip(*half.codec, x, shape), NotRepresentable) << "a code beyond f16 is no code";
}

TEST(Autoencoder, SteadyStateAllocatesNothing) {
  const Shape shape{64, 48};
  const auto x = normal_numbers(shape.elements(), 1);
  CodecStack stack = make_codec("autoencoder:width=5,init=xavier");
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  std::vector<float> out(x.size());
  const auto step = [&] {
    stack.codec->encode(ConstTensorView(x.data(), shape), {}, payload);
    stack.codec->decode(payload, {}, TensorView(out.data(), shape));
    const Round round = stack.codec->as<Rounds>()->begin_round(0, ConstTensorView(x.data(), shape), {}, 1);
    std::memcpy(round.receive.data(), round.send.data(), round.send.size());
    stack.codec->as<Rounds>()->end_rounds({}, 1, TensorView(out.data(), shape));
  };
  for (int i = 0; i < 3; ++i) step();
  const long before = testing::allocations;
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(testing::allocations - before, 0);
}

}  // namespace
}  // namespace thinwire
