// labels: unit
// optimised: yes
// Per-channel quantisation against its float64 reference and the published vectors of
// docs/papers/activation_compression.md, "Worked examples" 1, 2, 3.
#include <gtest/gtest.h>
#include <omp.h>

#include "support/codec_rounds.h"
#include "support/reference_codecs.h"

namespace thinwire {
namespace {

using testing::normal_numbers;

MessageKey key_of(const char* name) {
  MessageKey key;
  key.tensor = hash_name(name);
  return key;
}

struct Sent {
  std::vector<int> bytes;  // codes, without the scales
  std::vector<float> scale, decoded;
};
Sent send(const std::string& expression, const std::vector<float>& x, Shape shape, Form form = Form::fair) {
  CodecStack stack = make_codec(expression, form);
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  const std::size_t size = stack.codec->encode(ConstTensorView(x.data(), shape), key_of("quantize"), payload);
  EXPECT_EQ(size, payload.size()) << "a fixed-size codec uses its bound";
  Sent sent;
  for (std::int64_t c = 0; c < shape.columns(); ++c) {
    Half h;
    std::memcpy(&h, payload.data() + 2 * c, 2);
    sent.scale.push_back(to_float(h));
  }
  for (std::size_t i = 2 * static_cast<std::size_t>(shape.columns()); i < payload.size(); ++i)
    sent.bytes.push_back(static_cast<int>(payload[i]));
  sent.decoded.assign(x.size(), -7.0f);
  stack.codec->decode(payload, key_of("quantize"), TensorView(sent.decoded.data(), shape));
  return sent;
}

// The codes of one channel, for whatever packing holds one code per byte.
std::vector<int> codes_of_channel(int bits, const std::vector<float>& x) {
  std::vector<int> codes;
  const Sent sent = send("quantize:packing=neighbour,bits=" + std::to_string(bits), x,
                         Shape{static_cast<std::int64_t>(x.size()), 1});
  int held = 0, count = 0;
  for (const int byte : sent.bytes)
    for (int b = 7; b >= 0; --b) {
      held = held * 2 + (byte >> b & 1);
      if (++count == bits) {
        if (codes.size() < x.size()) codes.push_back(held);
        held = count = 0;
      }
    }
  return codes;
}

TEST(QuantizePublishedVectors, CodesAndValuesOfOneChannelWithScaleOne) {
  const std::vector<float> x = {-1, -0.5f, 0, 0.3f, 0.76f, 1};
  struct Expected {
    int bits;
    std::vector<int> codes;
    std::vector<float> values;
  };
  const Expected expected[] = {
      {2, {0, 1, 2, 3, 3, 3}, {-1, -0.5f, 0, 0.5f, 0.5f, 0.5f}},
      {3, {0, 2, 4, 5, 7, 7}, {-1, -0.5f, 0, 0.25f, 0.75f, 0.75f}},
      {4, {0, 4, 8, 10, 14, 15}, {-1, -0.5f, 0, 0.25f, 0.75f, 0.875f}},
      {6, {0, 16, 32, 42, 56, 63}, {-1, -0.5f, 0, 0.3125f, 0.75f, 0.96875f}},
      {8, {0, 64, 128, 166, 225, 255}, {-1, -0.5f, 0, 0.296875f, 0.7578125f, 0.9921875f}}};
  for (const Expected& e : expected) {
    EXPECT_EQ(codes_of_channel(e.bits, x), e.codes) << e.bits << " bits";
    EXPECT_EQ(send("quantize:bits=" + std::to_string(e.bits), x, Shape{6, 1}).decoded, e.values)
        << e.bits << " bits";
    EXPECT_EQ(send("quantize:bits=" + std::to_string(e.bits), x, Shape{6, 1}, Form::released).decoded,
              e.values)
        << e.bits << " bits";
  }
}

TEST(QuantizePublishedVectors, TiesGoToEvenAndTheEpsilonIsAnF16Sum) {
  EXPECT_EQ(codes_of_channel(2, {0.25f, 1.0f})[0], 2);
  EXPECT_EQ(codes_of_channel(4, {0.1875f, 1.0f})[0], 10) << "an f32 epsilon would give 9";
  EXPECT_EQ(send("quantize:bits=4", {0.1875f, 1.0f}, Shape{2, 1}).decoded[0], 0.25f);
}

TEST(QuantizePublishedVectors, AZeroChannelHasTheMiddleCodeAndDecodesToZero) {
  for (int bits = 1; bits <= 8; ++bits) {
    EXPECT_EQ(codes_of_channel(bits, {0, 0, 0}), std::vector<int>(3, 1 << (bits - 1)));
    EXPECT_EQ(send("quantize:bits=" + std::to_string(bits), {0, 0, 0}, Shape{3, 1}).decoded,
              std::vector<float>(3, 0.0f));
  }
}

// Values whose codes are the given ones: a first row fixes scale 1 with code 0 (x = -1) in every channel.
std::vector<int> packed_second_row(const std::string& packing, int bits, const std::vector<int>& codes) {
  const auto columns = codes.size();
  const float half = static_cast<float>(1 << (bits - 1));
  // Rows of -1 above until the second part starts at a whole byte of the neighbour stream.
  const std::size_t above = 8;
  std::vector<float> x(above * columns, -1.0f);
  for (const int code : codes) x.push_back((static_cast<float>(code) - half) / half);
  const Sent sent = send("quantize:packing=" + packing + ",bits=" + std::to_string(bits), x,
                         Shape{static_cast<std::int64_t>(above + 1), static_cast<std::int64_t>(columns)});
  const std::size_t skip = packing == "chunk" ? above * ((columns * static_cast<std::size_t>(bits) + 7) / 8)
                                              : above * columns * static_cast<std::size_t>(bits) / 8;
  return {sent.bytes.begin() + static_cast<std::ptrdiff_t>(skip), sent.bytes.end()};
}

TEST(QuantizePublishedVectors, ChunkPacking) {
  EXPECT_EQ(packed_second_row("chunk", 2, {0, 1, 2, 3}), (std::vector<int>{27}));
  EXPECT_EQ(packed_second_row("chunk", 4, {1, 2, 3, 4}), (std::vector<int>{19, 36}));
  EXPECT_EQ(packed_second_row("chunk", 2, {0, 1, 2, 3, 3, 2, 1, 0}), (std::vector<int>{45, 120}));
}
TEST(QuantizePublishedVectors, NeighbourPacking) {
  EXPECT_EQ(packed_second_row("neighbour", 4, {1, 2, 3, 4}), (std::vector<int>{18, 52}));
  EXPECT_EQ(packed_second_row("neighbour", 2, {0, 1, 2, 3, 3, 2, 1, 0}), (std::vector<int>{27, 228}));
  EXPECT_EQ(packed_second_row("neighbour", 3, {1, 2, 3, 4, 5, 6, 7, 0}), (std::vector<int>{41, 203, 184}));
  EXPECT_EQ(packed_second_row("neighbour", 3, {5, 2, 7}), (std::vector<int>{171, 128}));
}

const Shape shapes[] = {{1},      {1, 1},    {2},     {7, 13},   {3, 5, 17}, {1, 64},  {64, 1},
                        {31, 37}, {16, 128}, {97, 3}, {5, 1031}, {3, 67},    {65, 130}};

void expect_reference(const std::string& expression, int bits, bool neighbour, bool l2, Shape shape,
                      std::uint64_t seed) {
  SCOPED_TRACE(expression + " " + shape.to_string() + " seed " + std::to_string(seed));
  auto x = normal_numbers(shape.elements(), seed);
  const auto rows = static_cast<std::size_t>(shape.rows()),
             columns = static_cast<std::size_t>(shape.columns());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] *= std::exp2(static_cast<float>(i % columns % 11) - 5);  // channels differ in scale
  const auto expected = reference::quantize(x, rows, columns, bits, l2);
  const Sent sent = send(expression, x, shape);
  const auto bytes = neighbour ? reference::pack_neighbours(expected.codes, bits)
                               : reference::pack_chunks(expected.codes, bits);
  ASSERT_EQ(sent.bytes.size(), bytes.size());
  for (std::size_t c = 0; c < columns; ++c)
    ASSERT_EQ(sent.scale[c], static_cast<float>(expected.scale[c])) << "column " << c;
  bool any_tie = false;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      if (expected.is_tie[r][c]) {
        any_tie = true;
        continue;
      }
      ASSERT_EQ(sent.decoded[r * columns + c], static_cast<float>(expected.decoded[r * columns + c]))
          << "row " << r << " column " << c;
    }
  if (!any_tie) {
    EXPECT_EQ(sent.bytes, bytes);
  }
}

TEST(Quantize, EqualsItsFloat64ReferenceForEveryWidthPackingAndShape) {
  std::uint64_t seed = 1;
  for (const Shape& shape : shapes)
    for (int bits = 1; bits <= 8; ++bits) {
      const std::string b = std::to_string(bits);
      expect_reference("quantize:packing=neighbour,bits=" + b, bits, true, false, shape, ++seed);
      expect_reference("quantize:norm=l2,bits=" + b, bits, bits != 2 && bits != 4 && bits != 8, true, shape,
                       ++seed);
      if (bits == 2 || bits == 4 || bits == 8)
        expect_reference("quantize:bits=" + b, bits, false, false, shape, ++seed);
    }
}

TEST(Quantize, LargeTensorsEqualTheReferenceToo) {  // several threads, stores that bypass the caches
  const int threads = omp_get_max_threads();
  omp_set_num_threads(3);
  expect_reference("quantize:bits=4", 4, false, false, Shape{2051, 1024}, 5);
  expect_reference("quantize:bits=3", 3, true, false, Shape{2051, 1021}, 6);
  omp_set_num_threads(threads);
}

TEST(Quantize, AddsWhereDecodeOverwrites) {
  for (const char* expression : {"quantize:bits=8", "quantize:bits=4", "quantize:bits=2", "quantize:bits=3"})
    for (const Form form : {Form::fair, Form::released}) {
      const Shape shape{9, 21};
      const auto x = normal_numbers(shape.elements(), 3);
      CodecStack stack = make_codec(expression, form);
      std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
      stack.codec->encode(ConstTensorView(x.data(), shape), key_of("a"), payload);
      std::vector<float> once(x.size(), -7), sum(x.size(), 0.5f);
      stack.codec->decode(payload, key_of("a"), TensorView(once.data(), shape));
      stack.codec->decode_add(payload, key_of("a"), TensorView(sum.data(), shape));
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(sum[i], 0.5f + once[i]);
    }
}

TEST(Quantize, ErrorIsWithinHalfAStepExceptAtTheClippedTop) {
  const Shape shape{257, 19};
  const auto x = normal_numbers(shape.elements(), 11);
  for (const int bits : {2, 4, 8}) {
    const Sent sent = send("quantize:bits=" + std::to_string(bits), x, shape);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float step = sent.scale[i % 19] / static_cast<float>(1 << (bits - 1));
      const bool clipped = x[i] > sent.scale[i % 19] - step;
      const float rounding_of_scale = sent.scale[i % 19] * 0x1p-11f;
      ASSERT_LE(std::abs(x[i] - sent.decoded[i]), (clipped ? step : step / 2) + rounding_of_scale) << i;
    }
  }
}

// The released form rounds to f16 after every step: x, the quotient, the product.
TEST(Quantize, ReleasedFormIsF16Arithmetic) {
  const Shape shape{23, 29};
  const auto x = normal_numbers(shape.elements(), 17);
  for (const int bits : {2, 4, 8}) {
    const Sent sent = send("quantize:bits=" + std::to_string(bits), x, shape, Form::released);
    const double half = std::ldexp(1.0, bits - 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double scale = sent.scale[i % 29];
      const double quotient = reference::to_f16(reference::to_f16(x[i]) / reference::to_f16(scale + 1e-6));
      const double y = std::clamp(std::nearbyint(quotient * half), -half, half - 1);
      ASSERT_EQ(sent.decoded[i], static_cast<float>(reference::to_f16(y / half * scale))) << i;
    }
  }
}

// docs/papers/activation_compression.md, "Sizes": Q1/Q2/Q3 12.5/25/50 % of f16 bytes + 2h bytes
TEST(Quantize, PayloadBytesAreThoseOfThePaper) {
  const Shape shape{4096, 1024};
  const std::size_t dense = 2 * 4096 * 1024;
  EXPECT_EQ(make_codec("quantize:bits=2").codec->max_payload_bytes(shape), dense / 8 + 2048);
  EXPECT_EQ(make_codec("quantize:bits=4").codec->max_payload_bytes(shape), dense / 4 + 2048);
  EXPECT_EQ(make_codec("quantize:bits=8").codec->max_payload_bytes(shape), dense / 2 + 2048);
}

TEST(Quantize, AScaleBeyondF16IsRefused) {
  CodecStack stack = make_codec("quantize:bits=8");
  const std::vector<float> x = {1.0f, 70000.0f};
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(Shape{1, 2}));
  EXPECT_THROW(stack.codec->encode(ConstTensorView(x.data(), Shape{1, 2}), key_of("a"), payload),
               NotRepresentable);
}

TEST(Quantize, ADamagedScaleIsRefused) {
  CodecStack stack = make_codec("quantize:bits=8");
  const std::vector<float> x = {1, 2, 3, 4};
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(Shape{2, 2}));
  stack.codec->encode(ConstTensorView(x.data(), Shape{2, 2}), key_of("a"), payload);
  std::vector<float> out(4);
  for (const std::uint16_t bad : {0x7c00, 0x7e00, 0xbc00, 0xfc00}) {
    std::memcpy(payload.data() + 2, &bad, 2);
    EXPECT_THROW(stack.codec->decode(payload, key_of("a"), TensorView(out.data(), Shape{2, 2})), CorruptData)
        << bad;
  }
}

}  // namespace
}  // namespace thinwire
