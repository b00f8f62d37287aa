// labels: unit
// optimised: yes
// Chunked Top-K against the vectors of docs/papers/low_communication.md, "Worked examples", a reference in float64, and its laws.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "core/half.h"
#include "kernels/codec/joint_sum.h"
#include "kernels/sparse/chunk_grid.h"
#include "kernels/sparse/chunk_index.h"
#include "support/codec_rounds.h"
#include "support/damaged_payloads.h"
#include "support/reference_codecs.h"
#include "support/sent_payload.h"
#include "support/simd_targets.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using Sent = testing::SentPayload;
Sent send(const std::string& expression, const std::vector<float>& x, Shape shape, Form form = Form::fair) { return testing::send_payload(expression, x, shape, 0, form); }

std::vector<float> floats(const std::vector<int>& bytes, std::size_t count) {
  std::vector<std::uint8_t> raw(bytes.begin(), bytes.end());
  std::vector<float> values(count);
  std::memcpy(values.data(), raw.data(), 4 * count);
  return values;
}

TEST(ChunkVectors, ChunksAreTilesOfTheMatrix) {
  std::vector<float> x(16);
  for (std::size_t i = 0; i < 16; ++i) x[i] = static_cast<float>(i);
  const Sent sent = send("chunk_topk:chunk=2,k=4,values=f32", x, Shape{4, 4});
  EXPECT_EQ(floats(sent.bytes, 16), (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}));
  EXPECT_EQ(sent.decoded, x);
}

TEST(ChunkVectors, TwelveBitsTwoInThreeBytes) {
  const auto bytes = [](std::vector<std::uint16_t> positions) {
    std::vector<std::byte> out(chunk_index_bytes(ChunkIndexForm::bits12, 4096, static_cast<std::int64_t>(positions.size())));
    write_chunk_index(ChunkIndexForm::bits12, 4096, positions, out.data());
    std::vector<int> numbers;
    for (const std::byte b : out) numbers.push_back(static_cast<int>(b));
    return numbers;
  };
  EXPECT_EQ(bytes({5, 4095}), (std::vector<int>{0x05, 0xf0, 0xff}));
  EXPECT_EQ(bytes({1, 2}), (std::vector<int>{0x01, 0x20, 0x00}));
  EXPECT_EQ(bytes({0x123, 0xabc}), (std::vector<int>{0x23, 0xc1, 0xab}));
  EXPECT_EQ(bytes({0, 64}), (std::vector<int>{0x00, 0x00, 0x04}));
  EXPECT_EQ(bytes({1, 2, 0xabc}), (std::vector<int>{0x01, 0x20, 0x00, 0xbc, 0x0a}));
}

TEST(ChunkVectors, ReleasedChunksAreDivisors) {
  for (const auto& [length, divisor] : std::vector<std::pair<std::int64_t, std::int64_t>>{{768, 64}, {100, 50}, {1000, 50}, {130, 26}, {97, 1}, {50257, 29}}) {
    EXPECT_EQ(ChunkGrid(Shape{length, 64}, {.divisors = true}).height(), divisor);
    EXPECT_EQ(ChunkGrid(Shape{1, length}, {.divisors = true}).width(), divisor);
  }
}

const std::vector<float> page = {4, 3, 2, 1, 3, 0, 1, 0, 2, 1, -2, 0, 1, 2, 0, -1};

TEST(ChunkVectors, CosineTransform) {
  const Sent all = send("chunk_topk:chunk=4,k=16,transform=dct,values=f32", page, Shape{4, 4});
  const std::vector<double> wanted = {4.25, 3.942903, .75, -.280213, 3.019023, .133883, .517982, 1.383883, 1.75, .135299, -1.75, -.326641, .102470, .383883, .597239, -1.633883};
  const std::vector<float> found = floats(all.bytes, 16);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(found[i], wanted[i], 1e-6) << i;
    EXPECT_NEAR(all.decoded[i], page[i], 1e-5) << i;
  }
  const Sent two = send("chunk_topk:chunk=4,k=2,transform=dct,values=f32", page, Shape{4, 4});
  const std::vector<double> row = {2.350413, 1.595971, .529029, -.225413};
  double lost = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(two.decoded[i], row[i % 4], 1e-6) << i;
    lost += (two.decoded[i] - page[i]) * (two.decoded[i] - page[i]);
  }
  EXPECT_NEAR(std::sqrt(lost), 4.625043, 1e-5);
}

TEST(ChunkVectors, ARowOfFourAsReleased) {
  using Kept = std::vector<std::pair<int, float>>;
  const auto payload_of = [](const Kept& kept) {
    std::vector<std::byte> payload(12 * kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const std::int64_t position = kept[i].first;
      std::memcpy(payload.data() + 4 * i, &kept[i].second, 4);
      std::memcpy(payload.data() + 4 * kept.size() + 8 * i, &position, 8);
    }
    return payload;
  };
  const auto codec_of = [](std::size_t k) { return make_codec("chunk_topk:chunk=4,k=" + std::to_string(k) + ",transform=dct,values=f32,index=int64", Form::released); };
  // Means over senders of 0: .8 and .7, 1: -.9, 3: .4, as one message, and the page's row by itself.
  const auto decode = [&](const Kept& kept) {
    CodecStack stack = codec_of(kept.size());
    std::vector<float> out(4);
    stack.codec->decode(payload_of(kept), {}, TensorView(out.data(), Shape{1, 4}));
    return out;
  };
  const auto near = [](const std::vector<float>& found, const std::vector<double>& wanted) {
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6) << i;
  };
  near(decode({{0, .8f}, {1, -.9f}}), {-.187953, .156462, .643538, .987953});
  near(decode({{0, .75f}, {1, -.9f}, {3, .4f}}), {-.104714, -.129851, .879851, .854714});
  // Two messages side by side, and one after the other: the page's two rules.
  const std::vector<std::byte> first = payload_of({{0, .8f}, {1, -.9f}}), second = payload_of({{0, .7f}, {3, .4f}});
  CodecStack stack = codec_of(2);
  auto* const joint = stack.codec->as<JointSum>();
  ASSERT_NE(joint, nullptr);
  EXPECT_TRUE(joint->sums_jointly());
  const auto half = [](std::vector<float> sum) {
    for (float& v : sum) v /= 2;
    return sum;
  };
  std::vector<float> sum(4, 1e6f);
  const std::span<const std::byte> both[] = {first, second};
  joint->decode_together(both, {}, TensorView(sum.data(), Shape{1, 4}));
  near(half(sum), {-.104714, -.129851, .879851, .854714});
  stack.codec->decode(first, {}, TensorView(sum.data(), Shape{1, 4}));
  stack.codec->decode_add(second, {}, TensorView(sum.data(), Shape{1, 4}));
  near(half(sum), {.135143, .122575, .627425, .614857});
}

TEST(MeanOverSenders, IsTheMeanOfWhoSentAnElementAtEveryIndexAndShape) {
  for (const char* index : {"12bit", "rice", "int64"})
    for (const Shape& shape : {Shape{1, 300}, Shape{13, 17}, Shape{70, 65}}) {
      const auto n = static_cast<std::size_t>(shape.elements());
      const std::string expression = std::string("chunk_topk:chunk=8,k=5,values=f32,mean=senders,index=") + index;
      CodecStack stack = make_codec(expression);
      std::vector<std::vector<std::byte>> payloads;
      std::vector<double> sum(n, 0), senders(n, 0);
      for (int r = 0; r < 3; ++r) {
        std::vector<float> x(n);
        const Random random(static_cast<std::uint64_t>(r) + 1, "senders");
        for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(random.normal(i));
        const Sent sent = send(expression, x, shape);
        std::vector<std::byte>& payload = payloads.emplace_back();
        for (const int byte : sent.bytes) payload.push_back(static_cast<std::byte>(byte));
        for (std::size_t i = 0; i < n; ++i) sum[i] += sent.decoded[i], senders[i] += sent.decoded[i] != 0;
      }
      std::vector<float> out(n, 1e6f);
      const std::span<const std::byte> all[] = {payloads[0], payloads[1], payloads[2]};
      stack.codec->as<JointSum>()->decode_together(all, {}, TensorView(out.data(), shape));
      for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(out[i], senders[i] == 0 ? 0 : 3 * sum[i] / senders[i], 1e-5) << index << ", element " << i;
    }
  EXPECT_FALSE(make_codec("chunk_topk").codec->as<JointSum>()->sums_jointly());
}

/// Top-k of every chunk by sorting; of a row chunks of chunk^2.
std::vector<float> reference_of(const std::vector<float>& x, const Shape& shape, std::int64_t chunk, std::size_t k) {
  std::vector<float> out(x.size(), 0.0f);
  const bool vector = shape.rows() == 1;
  const std::int64_t height = vector ? 1 : chunk, width = vector ? chunk * chunk : chunk;
  for (std::int64_t r = 0; r < shape.rows(); r += height)
    for (std::int64_t c = 0; c < shape.columns(); c += width) {
      std::vector<float> values;
      std::vector<std::size_t> at;
      for (std::int64_t i = r; i < std::min(shape.rows(), r + height); ++i)
        for (std::int64_t j = c; j < std::min(shape.columns(), c + width); ++j) {
          at.push_back(static_cast<std::size_t>(i * shape.columns() + j));
          values.push_back(x[at.back()]);
        }
      for (const std::size_t p : reference::top_positions(values, k)) out[at[p]] = x[at[p]];
    }
  return out;
}

const Shape shapes[] = {{1, 1}, {1, 64}, {1, 4096}, {1, 4097}, {1, 9001}, {64, 64}, {65, 63}, {200, 130}, {2, 300}, {300, 2}, {97, 101}, {130, 257}};

TEST(ChunkTopK, KeepsTheLargestOfEveryChunk) {
  for (const Shape& shape : shapes)
    for (const char* index : {"12bit", "rice", "int64"})
      for (const auto& [chunk, k] : std::vector<std::pair<int, int>>{{64, 64}, {64, 1}, {64, 4095}, {32, 7}, {5, 3}}) {
        const std::string expression = "chunk_topk:values=f32,chunk=" + std::to_string(chunk) + ",k=" + std::to_string(k) + ",index=" + index;
        SCOPED_TRACE(expression + " " + shape.to_string());
        std::vector<float> x = normal_numbers(shape.elements(), 3);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? std::round(2 * x[i]) : i % 7 == 0 ? 0.0f : x[i];  // ties and zeros
        EXPECT_EQ(send(expression, x, shape).decoded, reference_of(x, shape, chunk, static_cast<std::size_t>(k)));
      }
}

TEST(ChunkTopK, SparseFlatAndScaledChunks) {
  std::vector<float> x(256 * 256, 0.0f);
  const std::vector<float> normal = normal_numbers(256 * 256, 4);
  for (std::size_t i = 0; i < x.size(); ++i) {  // chunks of 0, of one value, of few values, and of scales 2^-60 to 2^60
    const std::size_t number = i / 256 / 64 * 4 + i % 256 / 64;
    x[i] = number == 0 ? 0.0f : number == 1 ? -2.5f : number == 2 ? (i % 211 == 0 ? normal[i] : 0.0f) : std::ldexp(normal[i], static_cast<int>(number * 37 % 120) - 60);
  }
  EXPECT_EQ(send("chunk_topk:values=f32", x, Shape{256, 256}).decoded, reference_of(x, Shape{256, 256}, 64, 64));
}

TEST(ChunkTopK, DensityIsThatOfEveryChunk) {
  const std::vector<float> x = normal_numbers(128 * 192, 5);
  for (const Form form : {Form::fair, Form::released}) {
    const Sent sent = send("chunk_topk:k=48", x, Shape{128, 192}, form);
    for (std::size_t r = 0; r < 128; r += 64)
      for (std::size_t c = 0; c < 192; c += 64) {
        int kept = 0;
        for (std::size_t i = r; i < r + 64; ++i)
          for (std::size_t j = c; j < c + 64; ++j) kept += sent.decoded[i * 192 + j] != 0 ? 1 : 0;
        EXPECT_EQ(kept, 48);
      }
  }
}

TEST(ChunkTopK, BitsPerKeptValueAreThePages) {
  const Shape shape{256, 256};
  const std::vector<float> x = normal_numbers(shape.elements(), 6);
  const auto bits = [&](const std::string& rest, std::size_t head) { return 8.0 * static_cast<double>(send("chunk_topk:" + rest, x, shape).bytes.size() - head) / 1024; };
  EXPECT_EQ(bits("values=codebook2", 16), 14);
  EXPECT_EQ(bits("values=sign", 0), 13.25);
  EXPECT_EQ(bits("values=f32,index=int64", 0), 96);
  EXPECT_NEAR(bits("values=sign,index=rice", 0), 13.25 - 12 + 7.58, 0.1);
}

TEST(ChunkTopK, ValuesTravelAsSaid) {
  const Shape shape{128, 64};
  std::vector<float> x = normal_numbers(shape.elements(), 7);
  const std::vector<float> kept = reference_of(x, shape, 64, 64);
  const Sent half = send("chunk_topk:values=f16", x, shape), brain = send("chunk_topk:values=bf16", x, shape), sign = send("chunk_topk:values=sign", x, shape),
             book = send("chunk_topk:values=codebook2", x, shape);
  double sums[2] = {}, all = 0, all_of_book = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sums[i / 4096] += std::fabs(kept[i]) / 64, all += kept[i], all_of_book += book.decoded[i];
  std::vector<float> levels;
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(half.decoded[i], to_float(to_half(kept[i])));
    ASSERT_EQ(brain.decoded[i], to_float(to_bfloat16(kept[i])));
    ASSERT_EQ(sign.decoded[i], kept[i] == 0 ? 0 : std::copysign(to_float(to_bfloat16(static_cast<float>(sums[i / 4096]))), kept[i]));
    ASSERT_EQ(book.decoded[i] != 0, kept[i] != 0);
    if (kept[i] != 0 && std::find(levels.begin(), levels.end(), book.decoded[i]) == levels.end()) levels.push_back(book.decoded[i]);
  }
  EXPECT_NEAR(all, all_of_book, 1e-4) << "means of bins keep the sum";
  EXPECT_LE(levels.size(), 4u);
  x[0] = 1e6f;
  EXPECT_THROW((void)send("chunk_topk", x, shape), NotRepresentable) << "beyond f16";
}

TEST(ChunkTopK, ASignPerChunkBeatsABookForAllWhereScalesDiffer) {
  const Shape shape{512, 512};
  std::vector<float> x = normal_numbers(shape.elements(), 8);
  const std::vector<float> scales = normal_numbers(64, 9);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::exp(scales[i / 512 / 64 * 8 + i % 512 / 64]);
  const std::vector<float> kept = reference_of(x, shape, 64, 64);
  const auto error = [&](const char* expression) {
    const Sent sent = send(expression, x, shape, Form::released);
    double lost = 0, all = 0;
    for (std::size_t i = 0; i < x.size(); ++i) lost += (sent.decoded[i] - kept[i]) * (sent.decoded[i] - kept[i]), all += kept[i] * kept[i];
    return std::sqrt(lost / all);
  };
  EXPECT_NEAR(error("chunk_topk:values=sign"), 0.113, 0.02);
  EXPECT_GT(error("chunk_topk:values=codebook2"), 0.3);
}

/// Orthonormal: what is lost are the dropped coefficients, whose energy a transform in float64 gives.
TEST(ChunkTopK, TheTransformLosesTheSmallestCoefficients) {
  for (const Shape& shape : {Shape{64, 64}, Shape{128, 1152}, Shape{32, 16}, Shape{1, 256}, Shape{1, 300}, Shape{37, 41}})
    for (const int k : {1, 20, 256}) {
      constexpr std::int64_t n = 16;
      const std::string expression = "chunk_topk:chunk=16,transform=dct,values=f32,index=rice,k=" + std::to_string(k);
      SCOPED_TRACE(expression + " " + shape.to_string());
      const std::vector<float> x = normal_numbers(shape.elements(), 10);
      const Sent sent = send(expression, x, shape);
      const bool vector = shape.rows() == 1;
      const std::int64_t columns = vector ? n : shape.columns(), rows = vector ? (shape.columns() + n - 1) / n : shape.rows();
      double lost = 0, least = 0, energy = 0;
      for (std::int64_t r = 0; r < rows; r += n)
        for (std::int64_t c = 0; c < columns; c += n) {
          const auto at = [&](std::int64_t i, std::int64_t j) -> double {
            const std::int64_t flat = (r + i) * columns + c + j;
            return r + i < rows && c + j < columns && flat < shape.elements() ? x[static_cast<std::size_t>(flat)] : 0;
          };
          const auto cosine = [](std::int64_t u, std::int64_t i) {
            return std::sqrt((u == 0 ? 1.0 : 2.0) / n) * std::cos(std::numbers::pi * static_cast<double>((2 * i + 1) * u) / (2.0 * n));
          };
          std::vector<double> squares;
          double half[n][n] = {};
          for (std::int64_t u = 0; u < n; ++u)
            for (std::int64_t j = 0; j < n; ++j)
              for (std::int64_t i = 0; i < n; ++i) half[u][j] += cosine(u, i) * at(i, j);
          for (std::int64_t u = 0; u < n; ++u)
            for (std::int64_t v = 0; v < n; ++v) {
              double y = 0;
              for (std::int64_t j = 0; j < n; ++j) y += half[u][j] * cosine(v, j);
              squares.push_back(y * y);
            }
          std::sort(squares.begin(), squares.end());
          for (std::size_t i = 0; i + static_cast<std::size_t>(k) < squares.size(); ++i) least += squares[i];
        }
      for (std::size_t i = 0; i < x.size(); ++i) lost += (double{x[i]} - sent.decoded[i]) * (double{x[i]} - sent.decoded[i]), energy += double{x[i]} * x[i];
      const bool whole = shape.elements() == (rows + n - 1) / n * n * ((columns + n - 1) / n * n);
      EXPECT_LE(lost, least + 1e-6 * energy) << "what is lost behind the edge is not counted";
      if (whole) {
        EXPECT_NEAR(lost, least, 1e-6 * energy);
      }
    }
}

TEST(ChunkIndex, EveryFormComesBackAtEverySize) {
  const std::uint64_t seed = 11;
  const Random random(seed, "positions");
  std::uint64_t draw = 0;
  double rice_bits = 0;
  for (const std::int64_t area : {1, 2, 63, 64, 1000, 4095, 4096})
    for (const std::int64_t kept : {1, 2, 3, 31, 64, 500, 2048, 2900, 4096}) {
      if (kept > area) continue;
      for (int round = 0; round < 20; ++round) {
        std::vector<std::uint16_t> positions;
        if (round == 0)
          for (std::int64_t i = 0; i < kept; ++i) positions.push_back(static_cast<std::uint16_t>(area - kept + i));  // the longest second part
        for (std::int64_t i = 0; round > 0 && i < area; ++i)
          if (static_cast<std::int64_t>(random.below(draw++, static_cast<std::uint64_t>(area - i))) < kept - static_cast<std::int64_t>(positions.size())) positions.push_back(static_cast<std::uint16_t>(i));
        for (const ChunkIndexForm form : {ChunkIndexForm::bits12, ChunkIndexForm::rice, ChunkIndexForm::int64}) {
          std::vector<std::byte> in(chunk_index_bytes(form, area, kept)), ends(most_rice_bytes(area, kept));
          write_chunk_index(form, area, positions, in.data());
          if (form == ChunkIndexForm::rice) {
            const std::size_t size = write_rice_ends(area, positions, ends.data());
            ASSERT_LE(size, ends.size());
            ends.resize(size);
            ASSERT_EQ(rice_bytes_of(ends, kept), size);
            ASSERT_EQ(rice_bytes_of(std::span(ends).first(size - 1), kept), 0u);
            if (area == 4096 && kept == 64 && round > 0) rice_bits += 8.0 * static_cast<double>(in.size() + size) / 64 / 19;
          }
          std::vector<std::uint16_t> back(static_cast<std::size_t>(kept));
          ASSERT_TRUE(read_chunk_index(form, area, kept, in.data(), ends.data(), back.data())) << area << " " << kept;
          ASSERT_EQ(back, positions) << area << " " << kept;
        }
      }
    }
  EXPECT_NEAR(rice_bits, 7.56, 0.1) << "seed " << seed;
}

TEST(ChunkTopK, InstructionSetsAndThreadsDoNotMatter) {
  const Shape shape{300, 1030};
  const std::vector<float> x = normal_numbers(shape.elements(), 12);
  const int before = omp_get_max_threads();
  for (const char* expression : {"chunk_topk", "chunk_topk:chunk=33,k=40,index=rice", "chunk_topk:values=sign,index=rice", "chunk_topk:values=codebook2,chunk=20,k=20"}) {
    omp_set_num_threads(1);
    const Sent one = send(expression, x, shape);
    omp_set_num_threads(3);
    EXPECT_EQ(send(expression, x, shape).bytes, one.bytes) << expression;
    testing::on_every_simd_target([&] {
      const Sent other = send(expression, x, shape);
      EXPECT_EQ(other.bytes, one.bytes) << expression;
      EXPECT_EQ(other.decoded, one.decoded) << expression;
    });
  }
  omp_set_num_threads(before);
}

TEST(ChunkTopK, DamageIsRefusedOrHarmless) {
  for (const Shape& shape : {Shape{70, 93}, Shape{1, 5000}}) {
    const std::vector<float> x = normal_numbers(shape.elements(), 13);
    for (const char* index : {"12bit", "rice", "int64"})
      for (const char* values : {"f32", "f16", "bf16", "codebook2", "sign"})
        for (const char* transform : {"none", "dct"})
          testing::expect_damage_is_refused_or_harmless(std::string("chunk_topk:k=9,chunk=32,index=") + index + ",values=" + values + ",transform=" + transform, x, shape, 14, 100);
  }
}

}  // namespace
}  // namespace thinwire
