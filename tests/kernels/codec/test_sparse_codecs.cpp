// labels: unit
// optimised: yes
// Top-K and Random-K: exact selection against a stable sort, positions on the wire, distribution of the
// sampler, the masked backward pass.
#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/sparse/index_coding.h"
#include "kernels/sparse/random_positions.h"
#include "kernels/sparse/top_magnitudes.h"
#include "support/codec_rounds.h"
#include "support/reference_codecs.h"

namespace thinwire {
namespace {

using testing::normal_numbers;

MessageKey key_of(const char* name, std::int64_t step = 0) {
  MessageKey key;
  key.tensor = hash_name(name);
  key.step = step;
  return key;
}

std::vector<std::byte> encode(CodecStack& stack, const std::vector<float>& x, Shape shape,
                              const MessageKey& key) {
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  EXPECT_EQ(stack.codec->encode(ConstTensorView(x.data(), shape), key, payload), payload.size());
  return payload;
}
std::vector<float> decode(CodecStack& stack, const std::vector<std::byte>& payload, Shape shape,
                          const MessageKey& key) {
  std::vector<float> out(static_cast<std::size_t>(shape.elements()), -7.0f);
  stack.codec->decode(payload, key, TensorView(out.data(), shape));
  return out;
}
std::vector<float> round_trip(const std::string& expression, const std::vector<float>& x, Shape shape,
                              Form form = Form::fair) {
  CodecStack stack = make_codec(expression, form);
  return decode(stack, encode(stack, x, shape, key_of("t")), shape, key_of("t"));
}

std::vector<std::size_t> selected(const std::vector<float>& x, std::int64_t k) {
  TopMagnitudes top;
  top.select(ConstTensorView(x.data(), Shape{static_cast<std::int64_t>(x.size())}), k, key_of("x"));
  std::vector<std::size_t> positions;
  for (std::int64_t b = 0; b < sparse_blocks(top.elements()); ++b)
    for (const std::uint16_t o : top.offsets(b, nullptr))
      positions.push_back(static_cast<std::size_t>(b * sparse_block + o));
  return positions;
}

class Threads {
 public:
  explicit Threads(int n) : before_(omp_get_max_threads()) { omp_set_num_threads(n); }
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

TEST(TopMagnitudes, SelectsWhatAFullOrderSelects) {
  std::uint64_t seed = 100;
  for (const std::size_t n : {1, 2, 7, 91, 1023, 65535, 65536, 65537, 200003, 300000})
    for (const double fraction : {0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0}) {
      const auto x = normal_numbers(static_cast<std::int64_t>(n), ++seed);
      const auto k = std::max<std::int64_t>(1, std::llround(fraction * static_cast<double>(n)));
      ASSERT_EQ(selected(x, k), reference::top_positions(x, static_cast<std::size_t>(k)))
          << n << " elements, k " << k << ", seed " << seed;
    }
}

TEST(TopMagnitudes, HardInputsAreExactToo) {
  const std::size_t n = 400009;
  std::vector<std::pair<const char*, std::vector<float>>> inputs;
  inputs.emplace_back("all equal", std::vector<float>(n, -3.0f));
  inputs.emplace_back("all zero", std::vector<float>(n, 0.0f));
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 3) * (i % 2 == 0 ? 1.0f : -1.0f);
  inputs.emplace_back("three values", x);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i);
  inputs.emplace_back("ascending", x);
  std::fill(x.begin(), x.end(), 0.0f);
  for (std::size_t i = 1000; i < 1400; ++i) x[i] = 1e30f;
  x[n - 1] = 1e-40f;
  inputs.emplace_back("a cluster that a sample may miss, and a subnormal", x);
  const Random random(5, "wide");
  for (std::size_t i = 0; i < n; ++i)
    x[i] = std::exp2(std::clamp(static_cast<float>(random.normal(i) * 40), -140.0f, 120.0f));
  inputs.emplace_back("log-normal over the whole range", x);
  for (const auto& [name, values] : inputs)
    for (const std::int64_t k : {1, 399, 400, 401, 4000, 133336, 400009}) {
      const auto expected = reference::top_positions(values, static_cast<std::size_t>(k));
      for (const int threads : {1, 3}) {
        const Threads use(threads);
        ASSERT_EQ(selected(values, k), expected) << name << ", k " << k << ", threads " << threads;
      }
    }
}

TEST(TopMagnitudes, NanAndInfinityNameTheirPosition) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    auto x = normal_numbers(300000, 9);
    x[123457] = bad;
    try {
      selected(x, 3);
      FAIL() << "not refused";
    } catch (const RuntimeFailure& e) {
      EXPECT_NE(std::string(e.what()).find("123457"), std::string::npos) << e.what();
    }
  }
}

const Shape shapes[] = {{1},   {1, 1}, {7, 13},    {3, 5, 17}, {1, 997}, {997, 1},
                        {256}, {257},  {255, 257}, {65536},    {65537},  {300, 701}};

TEST(TopK, EqualsItsReferenceForEveryIndexAndShape) {
  std::uint64_t seed = 7;
  for (const Shape& shape : shapes)
    for (const char* index : {"compact", "int32", "int64"})
      for (const char* fraction : {"0.0001", "0.01", "0.1", "0.37", "1"}) {
        const auto x = normal_numbers(shape.elements(), ++seed);
        const std::string expression = std::string("topk:fraction=") + fraction + ",index=" + index;
        SCOPED_TRACE(expression + " " + shape.to_string() + " seed " + std::to_string(seed));
        const auto k = std::max<std::int64_t>(
            1, std::llround(std::stod(fraction) * static_cast<double>(shape.elements())));
        const auto expected = reference::top_k(x, static_cast<std::size_t>(k));
        const auto out = round_trip(expression, x, shape);
        for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], static_cast<float>(expected[i])) << i;
      }
}

TEST(TopK, LargeTensorsThatBypassTheCachesEqualTheReference) {
  const Threads use(3);
  const Shape shape{2311, 1021};
  const auto x = normal_numbers(shape.elements(), 42);
  const auto expected = reference::top_k(x, 23595);
  const auto out = round_trip("topk:count=23595", x, shape);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], static_cast<float>(expected[i])) << i;
}

TEST(TopK, WithAllElementsKeptIsLosslessAndSendsNoPositions) {  // docs/papers/activation_compression.md, "Worked examples" 5
  const Shape shape{31, 17};
  const auto x = normal_numbers(shape.elements(), 3);
  EXPECT_EQ(round_trip("topk:fraction=1,values=f32", x, shape), x);
  EXPECT_EQ(round_trip("topk:count=1000000,values=f32", x, shape), x) << "k beyond the size is clamped";
  EXPECT_EQ(round_trip("topk:count=1000000,values=f32", x, shape, Form::released), x);
  EXPECT_EQ(make_codec("topk:fraction=1").codec->max_payload_bytes(shape), 31u * 17 * 2);
}

TEST(TopK, PayloadBytesAreThoseOfThePaper) {
  // docs/papers/activation_compression.md, "Sizes": a kept element costs 2 + 8 bytes released; T1 at 32 x 512, h = 1024 is 1.64 MB.
  const Shape shape{32 * 512, 1024};
  EXPECT_EQ(make_codec("topk:count=160000", Form::released).codec->max_payload_bytes(shape), 1'600'000u);
  EXPECT_EQ(make_codec("topk:count=160000,index=int32").codec->max_payload_bytes(shape), 960'000u);
  // Elias-Fano with 8 low bits: k + ceil((k + n / 256) / 8) bytes.
  EXPECT_EQ(make_codec("topk:count=160000").codec->max_payload_bytes(shape),
            320'000u + 160'000u + (160'000u + 65'536u + 7) / 8);
}

TEST(TopK, AnOverflowingValueIsRefusedInF16AndSentInF32) {
  const std::vector<float> x = {1, 2, 1e6f, 4};
  EXPECT_THROW(round_trip("topk:count=2", x, Shape{4}), NotRepresentable);
  EXPECT_EQ(round_trip("topk:count=2,values=f32", x, Shape{4}), (std::vector<float>{0, 0, 1e6f, 4}));
}

TEST(TopK, ScatterAddSumsOverRanks) {
  const Shape shape{129, 511};
  CodecStack stack = make_codec("topk:fraction=0.05");
  std::vector<float> sum(static_cast<std::size_t>(shape.elements()), 0.0f);
  std::vector<double> expected(sum.size(), 0.0);
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const auto x = normal_numbers(shape.elements(), rank);
    stack.codec->decode_add(encode(stack, x, shape, key_of("t")), key_of("t"), TensorView(sum.data(), shape));
    const auto part = reference::top_k(
        x, static_cast<std::size_t>(std::llround(0.05 * static_cast<double>(shape.elements()))));
    for (std::size_t i = 0; i < part.size(); ++i) expected[i] += part[i];
  }
  for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], expected[i], 1e-6) << i;
}

TEST(MaskedBackward, OnlyTheKeptPositionsTravelAndReturn) {  // docs/papers/activation_compression.md, "Worked examples" 5
  const Shape shape{63, 129};
  for (const char* expression :
       {"topk:fraction=0.1", "topk:fraction=0.1,index=int32", "randomk:fraction=0.1"})
    for (const Form form : {Form::fair, Form::released}) {
      SCOPED_TRACE(std::string(expression) + " " + name_of(form));
      CodecStack sender = make_codec(expression, form), receiver = make_codec(expression, form);
      sender.codec->as<Backward>()->remember_messages(true);
      receiver.codec->as<Backward>()->remember_messages(true);
      // Two micro-batches in flight, their backward passes in order of arrival, as in 1F1B.
      std::vector<std::vector<float>> decoded;
      MessageKey keys[] = {key_of("act", 4), key_of("act", 4)};
      keys[1].micro_batch = 1;
      for (const MessageKey& key : keys)
        decoded.push_back(decode(
            receiver,
            encode(sender, normal_numbers(shape.elements(), 50 + static_cast<std::uint64_t>(key.micro_batch)),
                   shape, key),
            shape, key));
      for (const MessageKey& key : keys) {
        const auto gradient = normal_numbers(shape.elements(), 60);
        const Shape travel_shape = receiver.codec->as<Backward>()->travel_shape(shape);
        ASSERT_EQ(travel_shape, Shape{std::llround(0.1 * 63 * 129)});
        std::vector<float> travel(static_cast<std::size_t>(travel_shape.elements()), -7),
            back(gradient.size(), -7);
        receiver.codec->as<Backward>()->decode_backward(ConstTensorView(gradient.data(), shape), key,
                                        TensorView(travel.data(), travel_shape));
        sender.codec->as<Backward>()->encode_backward(ConstTensorView(travel.data(), travel_shape), key,
                                      TensorView(back.data(), shape));
        const auto& kept = decoded[static_cast<std::size_t>(key.micro_batch)];
        for (std::size_t i = 0; i < back.size(); ++i)
          ASSERT_EQ(back[i], kept[i] != 0 ? gradient[i] : 0.0f) << i;
      }
    }
}

TEST(MaskedBackward, AForgottenOrEvaluatedMessageIsAnError) {
  const Shape shape{64};
  CodecStack stack = make_codec("topk:count=4");
  stack.codec->as<Backward>()->remember_messages(true);
  const auto x = normal_numbers(64, 1);
  MessageKey evaluated = key_of("e");
  evaluated.pass = Pass::evaluate;
  encode(stack, x, shape, evaluated);
  for (std::int64_t step = 0; step < 4097; ++step) encode(stack, x, shape, key_of("t", step));
  std::vector<float> travel(4), back(64);
  const auto backward = [&](const MessageKey& key) {
    stack.codec->as<Backward>()->encode_backward(ConstTensorView(travel.data(), Shape{4}), key,
                                 TensorView(back.data(), shape));
  };
  EXPECT_NO_THROW(backward(key_of("t", 4096)));
  EXPECT_NO_THROW(backward(key_of("t", 1)));
  EXPECT_THROW(backward(key_of("t", 0)), RuntimeFailure) << "beyond 4096 waiting messages the oldest gives way";
  EXPECT_THROW(backward(evaluated), RuntimeFailure);
}

// ---- positions on the wire

class Listed final : public SparsePositions {
 public:
  Listed(std::int64_t n, std::vector<std::int64_t> positions) : n_(n), positions_(std::move(positions)) {}
  std::int64_t elements() const override { return n_; }
  std::int64_t start(std::int64_t block) const override {
    return std::lower_bound(positions_.begin(), positions_.end(), block * sparse_block) - positions_.begin();
  }
  std::span<const std::uint16_t> offsets(std::int64_t block, std::uint16_t* scratch) const override {
    std::size_t count = 0;
    for (std::int64_t i = start(block); i < start(block + 1); ++i)
      scratch[count++] =
          static_cast<std::uint16_t>(positions_[static_cast<std::size_t>(i)] - block * sparse_block);
    return {scratch, count};
  }

 private:
  std::int64_t n_;
  std::vector<std::int64_t> positions_;
};

std::vector<std::int64_t> read_all(const IndexReader& reader) {
  std::vector<std::uint16_t> scratch(sparse_block);
  std::vector<std::int64_t> positions;
  for (std::int64_t b = 0; b < sparse_blocks(reader.elements()); ++b)
    for (const std::uint16_t o : reader.offsets(b, scratch.data())) positions.push_back(b * sparse_block + o);
  return positions;
}

TEST(IndexCoding, RoundTripsDenseSparseAndClusteredPositions) {
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> cases = {
      {1, {0}},
      {2, {1}},
      {256, {255}},
      {257, {0, 256}},
      {65536, {65535}},
      {65537, {65536}},
      {200000, {0, 65535, 65536, 131071, 131072, 199999}},
      {10'000'000, {9'999'999}}};
  std::vector<std::int64_t> run(700);  // whole buckets kept
  std::iota(run.begin(), run.end(), 65300);
  cases.emplace_back(150000, run);
  std::vector<std::int64_t> all_but_one(70001);
  std::iota(all_but_one.begin(), all_but_one.end(), 1);
  cases.emplace_back(70002, all_but_one);
  for (const auto& [n, positions] : cases)
    for (const IndexForm form : {IndexForm::compact, IndexForm::int32, IndexForm::int64}) {
      const auto k = static_cast<std::int64_t>(positions.size());
      std::vector<std::byte> bytes(index_bytes(form, n, k));
      IndexWriter writer;
      writer.write(form, Listed(n, positions), bytes.data());
      IndexReader reader;
      reader.open(form, n, k, bytes, key_of("i"));
      EXPECT_EQ(read_all(reader), positions) << n << " elements, " << k << " kept";
    }
}

TEST(IndexCoding, CompactPositionsCostLittleMoreThanAByte) {
  const std::int64_t n = 8 << 20;
  for (const double fraction : {0.0001, 0.001, 0.01, 0.05, 0.1}) {
    const auto k = static_cast<std::int64_t>(fraction * static_cast<double>(n));
    const double bytes = static_cast<double>(index_bytes(IndexForm::compact, n, k)) / static_cast<double>(k);
    RecordProperty("bytes_per_index_at_" + std::to_string(fraction), std::to_string(bytes));
    EXPECT_LT(bytes, fraction < 0.001 ? 2.3 : fraction < 0.01 ? 1.7 : 1.25) << fraction;
  }
}

TEST(IndexCoding, ForeignBytesAreRefused) {
  const std::int64_t n = 200000, k = 3;
  const auto open_and_read = [&](IndexForm form, const std::vector<std::byte>& bytes) {
    IndexReader reader;
    reader.open(form, n, k, bytes, key_of("i"));
    read_all(reader);
  };
  for (const std::vector<std::int64_t>& bad : {std::vector<std::int64_t>{5, 5, 6},
                                               {7, 6, 8},
                                               {1, 2, n},
                                               {-1, 2, 3},
                                               {100000, 5, 100001},
                                               {1, 2, 1LL << 62}}) {
    std::vector<std::byte> bytes(24);
    std::memcpy(bytes.data(), bad.data(), 24);
    EXPECT_THROW(open_and_read(IndexForm::int64, bytes), CorruptData);
  }
  EXPECT_THROW(open_and_read(IndexForm::compact,
                             std::vector<std::byte>(index_bytes(IndexForm::compact, n, k), std::byte{0})),
               CorruptData);
  EXPECT_THROW(open_and_read(IndexForm::compact,
                             std::vector<std::byte>(index_bytes(IndexForm::compact, n, k), std::byte{0xff})),
               CorruptData);
  EXPECT_THROW(open_and_read(IndexForm::compact, std::vector<std::byte>(3)), CorruptData);
}

// ---- Random-K

std::vector<std::int64_t> drawn(std::int64_t n, std::int64_t k, std::uint64_t stream) {
  const RandomPositions random(0, stream, n, k);
  static std::vector<std::uint16_t> scratch(sparse_block);
  std::vector<std::int64_t> positions;
  for (std::int64_t b = 0; b < sparse_blocks(n); ++b)
    for (const std::uint16_t o : random.offsets(b, scratch.data())) positions.push_back(b * sparse_block + o);
  return positions;
}

TEST(RandomPositions, AreExactlyKDistinctAscendingPositions) {
  for (const std::int64_t n : {1, 2, 63, 64, 65, 1000, 65535, 65536, 65537, 500000})
    for (const std::int64_t k : {std::int64_t{1}, n / 100 + 1, n / 2, n - 1, n}) {
      const auto positions = drawn(n, k, 3);
      ASSERT_EQ(positions.size(), static_cast<std::size_t>(k)) << n;
      for (std::size_t i = 0; i < positions.size(); ++i) {
        ASSERT_LT(i == 0 ? -1 : positions[i - 1], positions[i]);
        ASSERT_LT(positions[i], n);
      }
    }
}

// Chi-square of how often each position is kept over many streams; the bound is 6 standard deviations.
void expect_uniform(std::int64_t n, std::int64_t k, int streams, std::int64_t cells) {
  std::vector<double> count(static_cast<std::size_t>(cells), 0.0);
  for (int s = 0; s < streams; ++s)
    for (const std::int64_t p : drawn(n, k, mix_stream(99, static_cast<std::uint64_t>(s))))
      ++count[static_cast<std::size_t>(p * cells / n)];
  double chi = 0;
  for (std::int64_t c = 0; c < cells; ++c) {
    const double size = static_cast<double>((n * (c + 1) + cells - 1) / cells - (n * c + cells - 1) / cells);
    const double expected =
        static_cast<double>(streams) * static_cast<double>(k) * size / static_cast<double>(n);
    chi += (count[static_cast<std::size_t>(c)] - expected) * (count[static_cast<std::size_t>(c)] - expected) /
           expected;
  }
  EXPECT_LT(chi, static_cast<double>(cells) + 6 * std::sqrt(2.0 * static_cast<double>(cells)))
      << n << " elements, k " << k;
}
TEST(RandomPositions, EveryPositionIsKeptWithProbabilityKOverN) {
  expect_uniform(97, 10, 20000, 97);
  expect_uniform(97, 90, 20000, 97);
  expect_uniform(65536, 655, 400, 1024);
  expect_uniform(150000, 1, 20000, 30);    // k below the number of blocks
  expect_uniform(150000, 1500, 400, 300);  // a short last block
}
TEST(RandomPositions, PairsAreIndependentInsideABlock) {  // P(both kept) = k (k - 1) / (n (n - 1))
  const int streams = 60000;
  int both = 0;
  for (int s = 0; s < streams; ++s) {
    const auto p = drawn(50, 20, mix_stream(7, static_cast<std::uint64_t>(s)));
    both += std::binary_search(p.begin(), p.end(), 3) && std::binary_search(p.begin(), p.end(), 4) ? 1 : 0;
  }
  const double expected = streams * 20.0 * 19 / (50.0 * 49);
  EXPECT_NEAR(both, expected, 6 * std::sqrt(expected));
}

TEST(RandomK, KeepsTheSamePositionsOnEveryRankAndOthersInTheNextStep) {
  const Shape shape{100, 300};
  const std::vector<float> ones(30000, 1.0f);
  CodecStack a = make_codec("randomk:fraction=0.01"), b = make_codec("randomk:fraction=0.01");
  const auto first = decode(a, encode(a, ones, shape, key_of("t", 1)), shape, key_of("t", 1));
  EXPECT_EQ(first, decode(b, encode(b, ones, shape, key_of("t", 1)), shape, key_of("t", 1)));
  EXPECT_NE(first, decode(b, encode(b, ones, shape, key_of("t", 2)), shape, key_of("t", 2)));
  EXPECT_EQ(std::count(first.begin(), first.end(), 1.0f), 300);
  EXPECT_EQ(make_codec("randomk:fraction=0.01").codec->max_payload_bytes(shape), 600u) << "values only";
  EXPECT_EQ(make_codec("randomk:fraction=0.01", Form::released).codec->max_payload_bytes(shape), 3000u);
}

TEST(RandomK, RoundsSumTheKeptElements) {
  const Shape shape{301, 307};
  for (const char* expression : {"randomk:fraction=0.03", "randomk:fraction=0.03,values=f32"})
    for (const int world : {1, 2, 3, 4, 8}) {
      auto ranks = testing::codec_of_every_rank(expression, world);
      std::vector<std::vector<float>> inputs;
      for (int r = 0; r < world; ++r)
        inputs.push_back(normal_numbers(shape.elements(), static_cast<std::uint64_t>(r)));
      const auto sum = testing::reduce_by_rounds(ranks, inputs, shape, key_of("t"));
      std::size_t kept = 0;
      for (std::size_t i = 0; i < sum.size(); ++i) {
        if (sum[i] == 0) continue;
        ++kept;
        double expected = 0;
        for (const auto& x : inputs) expected += x[i];
        ASSERT_NEAR(sum[i], expected, 0.02 * world) << expression << " " << i;
      }
      EXPECT_EQ(kept, static_cast<std::size_t>(std::llround(0.03 * 301 * 307)));
    }
}

TEST(RandomK, UnbiasedScalingMakesTheMeanOverDrawsTheInput) {
  const Shape shape{20};
  const auto x = normal_numbers(20, 4);
  CodecStack stack = make_codec("randomk:count=5,unbiased=true,values=f32");
  std::vector<double> mean(20, 0.0);
  const int draws = 20000;
  for (int s = 0; s < draws; ++s) {
    const auto out = decode(stack, encode(stack, x, shape, key_of("t", s)), shape, key_of("t", s));
    for (std::size_t i = 0; i < 20; ++i) mean[i] += out[i] / draws;
  }
  // Standard deviation of one draw: |x| sqrt(n / k - 1).
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_NEAR(mean[i], x[i], 6 * std::abs(x[i]) * std::sqrt(3.0 / draws));
}

TEST(RandomK, ReleasedFormRefusesPositionsOutsideTheTensor) {
  const Shape shape{50};
  CodecStack stack = make_codec("randomk:count=2", Form::released);
  auto payload = encode(stack, normal_numbers(50, 1), shape, key_of("t"));
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{50}, std::int64_t{1} << 60}) {
    std::memcpy(payload.data() + 4, &bad, 8);
    EXPECT_THROW(decode(stack, payload, shape, key_of("t")), CorruptData);
  }
}

}  // namespace
}  // namespace thinwire
