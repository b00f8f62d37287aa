// labels: unit
// Subspace networks' codec against its formula in float64 (docs/papers/low_bandwidth_pipeline.md, "Subspace networks"): the way there and back, gradients; every
// codec inside; damage, state and what is refused.
#include <gtest/gtest.h>

#include <omp.h>

#include <cmath>
#include <limits>

#include "kernels/codec/message.h"
#include "kernels/codec/state.h"
#include "support/codec_rounds.h"
#include "support/count_allocations.h"
#include "support/damaged_payloads.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using testing::relative_difference;
using Floats = std::vector<float>;
using Tokens = std::vector<std::int32_t>;

Tokens tokens_for(std::int64_t rows) {
  const Random random(7, "tokens");
  Tokens tokens(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < tokens.size(); ++r) tokens[r] = static_cast<std::int32_t>(random.below(r, 50257));
  return tokens;
}

/// Both ends of a boundary, each with a codec of its own.
struct Ends {
  explicit Ends(const std::string& expression) : sender(make_codec(expression)), receiver(make_codec(expression)) {}

  MessageKey key_of(const Tokens& tokens, std::int64_t step) const {
    MessageKey key;
    key.tensor = hash_name("boundary");
    key.step = step;
    key.tokens = tokens;
    key.samples = samples;
    return key;
  }
  Floats send(const Floats& x, const Shape& shape, const Tokens& tokens, std::int64_t step = 0) {
    const MessageKey key = key_of(tokens, step);
    payload.resize(sender.codec->max_payload_bytes(shape));
    const std::size_t most = payload.size();
    payload.resize(encode_message(sender, ConstTensorView(x.data(), shape), key, payload, scratch));
    EXPECT_TRUE(!sender.codec->traits().fixed_size || payload.size() == most);
    Floats out(x.size(), -7.0f);
    decode_message(receiver, payload, key, TensorView(out.data(), shape));
    return out;
  }
  Floats send(const Floats& x, const Shape& shape) { return send(x, shape, tokens_for(shape.rows())); }

  CodecStack sender, receiver;
  std::vector<std::int64_t> samples = {1};
  std::vector<std::byte> payload;
  MessageScratch scratch;
};

/// F [rows, columns] as the receiver has it: what arrives of coordinates that are zero.
Floats table_of(const std::string& parameters, const Shape& shape, const Tokens& tokens) {
  CodecStack stack = make_codec("none+subspace:" + parameters);
  MessageKey key;
  key.tokens = tokens;
  const std::vector<std::byte> zeros(stack.codec->max_payload_bytes(shape));
  Floats out(static_cast<std::size_t>(shape.elements()));
  stack.codec->decode(zeros, key, TensorView(out.data(), shape));
  return out;
}

/// U [columns, k]: the coordinates of unit vectors.
Floats basis_of(std::int64_t k, std::int64_t columns) {
  CodecStack stack = make_codec("none+subspace:table=none,k=" + std::to_string(k));
  Floats identity(static_cast<std::size_t>(columns * columns), 0.0f);
  for (std::int64_t i = 0; i < columns; ++i) identity[static_cast<std::size_t>(i * columns + i)] = 1;
  Floats basis(static_cast<std::size_t>(columns * k));
  stack.codec->encode(ConstTensorView(identity.data(), Shape{columns, columns}), {}, std::as_writable_bytes(std::span(basis)));
  return basis;
}

/// (x - known) U, [rows, k], for U [columns, k].
std::vector<double> coordinates(const Floats& x, const Floats& known, const Floats& basis, std::int64_t columns) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / columns, k = static_cast<std::int64_t>(basis.size()) / columns;
  std::vector<double> code(static_cast<std::size_t>(rows * k));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<std::size_t>(r * columns + c);
      const double value = double{x[at]} - (known.empty() ? 0.0 : double{known[at]});
      for (std::int64_t j = 0; j < k; ++j) code[static_cast<std::size_t>(r * k + j)] += value * static_cast<double>(basis[static_cast<std::size_t>(c * k + j)]);
    }
  return code;
}

template <typename Code>
std::vector<double> rows_of(const Code& code, const Floats& known, const Floats& basis, std::int64_t columns) {
  const std::int64_t k = static_cast<std::int64_t>(basis.size()) / columns, rows = static_cast<std::int64_t>(code.size()) / k;
  std::vector<double> x(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<std::size_t>(r * columns + c);
      x[at] = known.empty() ? 0.0 : double{known[at]};
      for (std::int64_t j = 0; j < k; ++j) x[at] += static_cast<double>(code[static_cast<std::size_t>(r * k + j)]) * static_cast<double>(basis[static_cast<std::size_t>(c * k + j)]);
    }
  return x;
}

TEST(Subspace, SendsTheCoordinatesAndRebuildsTheRowsOfTheFormula) {
  for (const Shape& shape : {Shape{1}, Shape{1, 1}, Shape{5, 1}, Shape{1, 7}, Shape{7, 13}, Shape{2, 3, 32}, Shape{1100, 96}, Shape{67, 97}})
    for (const std::int64_t k : {std::int64_t{1}, (shape.columns() + 1) / 2, shape.columns()}) {
      SCOPED_TRACE(shape.to_string() + ", k = " + std::to_string(k));
      const std::int64_t columns = shape.columns();
      const Tokens tokens = tokens_for(shape.rows());
      const Floats x = normal_numbers(shape.elements(), 3), basis = basis_of(k, columns), known = table_of("k=" + std::to_string(k), shape, tokens);
      Ends ends("none+subspace:k=" + std::to_string(k));
      const Floats arrived = ends.send(x, shape, tokens);
      Floats sent(ends.payload.size() / sizeof(float));
      std::memcpy(sent.data(), ends.payload.data(), ends.payload.size());
      EXPECT_EQ(sent.size(), static_cast<std::size_t>(shape.rows() * k));
      const std::vector<double> code = coordinates(x, known, basis, columns), rebuilt = rows_of(code, known, basis, columns);
      for (std::size_t i = 0; i < code.size(); ++i) ASSERT_NEAR(sent[i], code[i], 2e-5) << i;
      for (std::size_t i = 0; i < rebuilt.size(); ++i) ASSERT_NEAR(arrived[i], rebuilt[i], 2e-5) << i;
      Floats sum = x;
      ends.receiver.codec->decode_add(ends.payload, ends.key_of(tokens, 0), TensorView(sum.data(), shape));
      for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], x[i] + arrived[i], 2e-5) << i;
    }
}

TEST(Subspace, IsExactToRoundingForRowsOfTheSubspaceAndTheTable) {
  const Shape shape{200, 256};
  const std::int64_t k = 40;
  const Tokens tokens = tokens_for(shape.rows());
  const Floats basis = basis_of(k, 256), code = normal_numbers(200 * k, 4);
  for (const char* table : {"k=40", "k=40,deviation=0.02,seed=0", "k=40,table=none"}) {
    SCOPED_TRACE(table);
    const std::vector<double> exact = rows_of(code, table_of(table, shape, tokens), basis, 256);
    const Floats x(exact.begin(), exact.end());
    Ends ends(std::string("none+subspace:") + table);
    const Floats arrived = ends.send(x, shape, tokens);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(arrived[i], x[i], 3e-6) << i;
    EXPECT_LT(relative_difference(arrived, x), 5e-7);
  }
  const Floats x = normal_numbers(shape.elements(), 5);
  Ends whole("none+subspace:k=256");
  EXPECT_LT(relative_difference(whole.send(x, shape, tokens), x), 1e-6) << "of any tensor where the subspace is the space";
  // Of any other what arrives is in the subspace, so that it arrives again.
  Ends part("none+subspace:k=40");
  const Floats once = part.send(x, shape, tokens);
  EXPECT_LT(relative_difference(part.send(once, shape, tokens), once), 1e-6);
}

TEST(Subspace, KeepsTheShareOfARandomTensorThatItsDimensionsAre) {
  const Shape shape{4000, 128};
  const Floats x = normal_numbers(shape.elements(), 6);
  Ends ends("none+subspace:k=32,table=none");
  const Floats arrived = ends.send(x, shape, {});
  double kept = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) kept += double{arrived[i]} * arrived[i], all += double{x[i]} * x[i];
  EXPECT_NEAR(kept / all, 0.25, 5 * 0.25 * std::sqrt(2.0 / (4000 * 32)));
}

TEST(Subspace, GradientsGoByTheBasisAloneWithTheRuleOfTheCodecInside) {
  const Shape shape{30, 48};
  const std::int64_t k = 12;
  const Tokens tokens = tokens_for(30);
  const Floats basis = basis_of(k, 48), x = normal_numbers(shape.elements(), 7), g = normal_numbers(shape.elements(), 8);
  for (const char* inside : {"none", "group:bits=4", "topk:fraction=0.25,values=f32", "topk:fraction=0.5+hadamard:block=4"}) {
    SCOPED_TRACE(inside);
    Ends ends(std::string(inside) + "+subspace:k=12");
    Backward &sender = *ends.sender.codec->as<Backward>(), &receiver = *ends.receiver.codec->as<Backward>();
    sender.remember_messages(true);
    receiver.remember_messages(true);
    ends.send(x, shape, tokens);
    MessageKey key = ends.key_of({}, 0);  // no token is asked for on the way back
    const Shape small = receiver.travel_shape(shape);
    EXPECT_LE(small.elements(), 30 * k);
    Floats travel(static_cast<std::size_t>(small.elements())), back(x.size(), -7.0f);
    receiver.decode_backward(ConstTensorView(g.data(), shape), key, TensorView(travel.data(), small));
    sender.encode_backward(ConstTensorView(travel.data(), small), key, TensorView(back.data(), shape));
    // By the codec inside, on float64 coordinates.
    const std::vector<double> projected = coordinates(g, {}, basis, 48), seen = coordinates(x, table_of("k=12", shape, tokens), basis, 48);
    const Floats code(seen.begin(), seen.end()), code_gradient(projected.begin(), projected.end());
    CodecStack codec = make_codec(inside);
    if (auto* rule = codec.codec->as<Backward>()) rule->remember_messages(true);
    testing::send_message(codec, code, Shape{30, k}, key);
    Floats inner_travel(static_cast<std::size_t>(travel_shape(*codec.codec, Shape{30, k}).elements())), inner_back(code.size());
    decode_backward(*codec.codec, ConstTensorView(code_gradient.data(), Shape{30, k}), key, TensorView(inner_travel.data(), small));
    encode_backward(*codec.codec, ConstTensorView(inner_travel.data(), small), key, TensorView(inner_back.data(), Shape{30, k}));
    EXPECT_LT(relative_difference(travel, inner_travel), 1e-5);
    EXPECT_LT(relative_difference(back, rows_of(inner_back, {}, basis, 48)), 1e-5);
  }
}

TEST(Subspace, GoesAroundEveryCodecThatHasPayloads) {
  const Shape shape{24, 64};
  const Tokens tokens = tokens_for(24);
  const Floats x = normal_numbers(shape.elements(), 9);
  int taken = 0;
  for (const CodecInfo* info : all_codecs()) {
    const CodecTraits inside = make_codec(info->name).codec->traits();
    const std::string expression = info->name + "+subspace:k=32";
    SCOPED_TRACE(expression);
    if (!inside.gather || inside.needs_fit) {
      EXPECT_THROW(make_codec(expression), UsageError);
      continue;
    }
    Ends ends(expression), again(expression);
    const Floats arrived = ends.send(x, shape, tokens);
    EXPECT_EQ(again.send(x, shape, tokens), arrived) << "equal inputs, equal results";
    EXPECT_EQ(again.payload, ends.payload);
    EXPECT_FALSE(ends.sender.codec->traits().lossless);
    for (const float v : arrived) ASSERT_TRUE(std::isfinite(v));
    ++taken;
  }
  EXPECT_GT(taken, 10);
  for (const char* expression : {"group:bits=4+hadamard:block=8+subspace:k=32", "group+subspace:k=32+ef", "group+delta+subspace:k=32", "cast:to=bf16+subspace", "group+subspace:table=none+delta"})
    EXPECT_LT(relative_difference(Ends(expression).send(x, shape, tokens), x), 2.0) << expression;
}

TEST(Subspace, NothingAndOneRowAreTensorsToo) {
  for (const char* expression : {"none+subspace", "group+subspace", "topk+subspace:table=none"})
    for (const Shape& shape : {Shape{0}, Shape{0, 8}, Shape{3, 0}, Shape{1, 8}, Shape{1, 1}}) {
      SCOPED_TRACE(std::string(expression) + " " + shape.to_string());
      Ends ends(expression);
      const Floats x = normal_numbers(shape.elements(), 1);
      EXPECT_EQ(ends.send(x, shape).size(), x.size());
    }
}

TEST(Subspace, ResultsDoNotDependOnThreadsNorOnTheTokensThatCameBefore) {
  const Shape shape{600, 512};  // several stripes
  const Floats x = normal_numbers(shape.elements(), 8);
  const Tokens tokens = tokens_for(600);
  const int before = omp_get_max_threads();
  std::vector<std::vector<std::byte>> payloads;
  std::vector<Floats> arrived;
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    Ends ends("none+subspace");
    if (threads == 2) ends.send(x, shape, Tokens(600, 9));
    arrived.push_back(ends.send(x, shape, tokens));
    payloads.push_back(ends.payload);
  }
  omp_set_num_threads(before);
  for (const std::size_t i : {1u, 2u}) {
    EXPECT_EQ(payloads[i], payloads[0]);
    EXPECT_EQ(arrived[i], arrived[0]);
  }
}

TEST(Subspace, RefusesNumbersThatAreNoneAndNamesTheirPlace) {
  const Shape shape{17, 23};
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
    for (const char* expression : {"none+subspace", "cast+subspace", "group+subspace"}) {
      Ends ends(expression);
      Floats x = normal_numbers(shape.elements(), 7);
      x[5 * 23 + 11] = bad;
      try {
        ends.send(x, shape);
        FAIL() << "not refused";
      } catch (const RuntimeFailure& e) {
        EXPECT_NE(std::string(e.what()).find("126"), std::string::npos) << e.what();
      }
    }
  Ends ends("none+subspace:k=2");
  EXPECT_THROW(ends.send(Floats(17 * 23, std::numeric_limits<float>::max()), shape), NotRepresentable) << "its coordinates are beyond f32";
}

TEST(Subspace, DamagedPayloadsAreRefusedOrGiveNumbers) {
  const Shape shape{20, 48};
  const Floats x = normal_numbers(shape.elements(), 2);
  for (const char* expression : {"none+subspace:table=none", "cast+subspace:table=none,k=48", "group:bits=4+subspace:table=none", "topk:fraction=0.2+subspace:table=none"})
    testing::expect_damage_is_refused_or_harmless(expression, x, shape, 20261123);
  // Whatever 32 bits are: a row of finite numbers, or refused.
  Ends ends("none+subspace:k=3");
  ends.send(x, shape);
  const Tokens tokens = tokens_for(20);
  const Random random(20261123, "coordinates");
  Floats out(x.size());
  int refused = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    std::vector<std::byte> damaged = ends.payload;
    const std::uint32_t bits = random.bits32(2 * i);
    std::memcpy(damaged.data() + 4 * random.below(2 * i + 1, damaged.size() / 4), &bits, 4);
    try {
      ends.receiver.codec->decode(damaged, ends.key_of(tokens, 0), TensorView(out.data(), shape));
    } catch (const CorruptData&) {
      ++refused;
      continue;
    }
    for (const float v : out) ASSERT_TRUE(std::isfinite(v)) << "bits " << bits;
  }
  EXPECT_GT(refused, 0);
}

TEST(Subspace, SaysWhatItCannotDo) {
  for (const char* refused : {"autoencoder+subspace", "autoencoder:init=xavier+subspace", "none+subspace+subspace", "none+subspace:k=4,fraction=0.5", "none+subspace:table=none,deviation=2", "group+subspace+delta"})
    EXPECT_THROW(make_codec(refused), UsageError) << refused;
  EXPECT_NO_THROW(make_codec("none+subspace:table=none+subspace")) << "one table";
  EXPECT_TRUE(make_codec("none+subspace").codec->traits().by_token);
  EXPECT_TRUE(make_codec("group+subspace+hadamard").codec->traits().by_token) << "whatever is around it";
  EXPECT_FALSE(make_codec("none+subspace:table=none").codec->traits().by_token);
  EXPECT_TRUE(make_codec("group+delta+subspace").codec->traits().by_sample);
  const Shape shape{4, 16};
  const Floats x = normal_numbers(64, 1);
  Ends ends("none+subspace");
  EXPECT_THROW(ends.send(x, shape, {}), UsageError) << "no token ids";
  EXPECT_THROW(ends.send(x, shape, {1, 2, 3}), UsageError) << "too few";
  EXPECT_THROW(ends.send(x, shape, {1, 2, 3, -4}), UsageError) << "no id";
  EXPECT_THROW(Ends("none+subspace:k=17").send(x, shape), UsageError);
  EXPECT_THROW(make_codec("none+subspace:k=17").codec->check_message(shape), UsageError);
  EXPECT_NO_THROW(make_codec("none+subspace:k=16").codec->check_message(shape));
}

TEST(Subspace, TheStateOfTheCodecInsideGoesOnBitEqual) {
  const Shape shape{8, 40};
  for (const char* expression : {"group+delta+subspace:k=20", "powersgd:rank=2,min_ratio=1+subspace:k=20", "group+subspace"}) {
    SCOPED_TRACE(expression);
    Ends one(expression), other(expression);
    for (std::int64_t step = 0; step < 3; ++step) one.send(normal_numbers(320, static_cast<std::uint64_t>(step)), shape, tokens_for(8), step);
    for (const auto& [from, to] : {std::pair{&one.sender, &other.sender}, {&one.receiver, &other.receiver}}) {
      StateWriter writer;
      from->codec->as<State>()->save_state(writer);
      const std::vector<std::byte> bytes = writer.finish();
      StateReader reader(bytes);
      to->codec->as<State>()->load_state(reader);
      reader.check_all_taken();
    }
    for (std::int64_t step = 3; step < 6; ++step) {
      const Floats x = normal_numbers(320, static_cast<std::uint64_t>(step));
      EXPECT_EQ(one.send(x, shape, tokens_for(8), step), other.send(x, shape, tokens_for(8), step));
      EXPECT_EQ(one.payload, other.payload);
    }
  }
}

TEST(Subspace, SteadyStateAllocatesNothing) {
  const Shape shape{64, 128};
  const Floats x = normal_numbers(shape.elements(), 1);
  const Tokens tokens = tokens_for(64);
  Ends ends("group+subspace");
  for (std::int64_t step = 0; step < 2; ++step) ends.send(x, shape, tokens, step);
  const MessageKey key = ends.key_of(tokens, 3);
  Floats out(x.size());
  const long before = testing::allocations;
  ends.sender.codec->encode(ConstTensorView(x.data(), shape), key, ends.payload);
  ends.receiver.codec->decode(ends.payload, key, TensorView(out.data(), shape));
  EXPECT_EQ(testing::allocations, before);
}

}  // namespace
}  // namespace thinwire
