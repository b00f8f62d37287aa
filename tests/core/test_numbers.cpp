// labels: unit
// Element types, 16-bit conversions, shapes, views and statistics.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/half.h"
#include "core/random.h"
#include "core/statistics.h"
#include "core/device/tensor.h"

namespace thinwire {
namespace {

// Independent oracle: the value of a bit pattern by the definition of the format, in double.
double value_of(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> (exponent_bits + mantissa_bits) & 1u ? -1 : 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const double mantissa = bits & ((1u << mantissa_bits) - 1);
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(std::ldexp(1.0, mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

// Independent oracle: x rounded to the format's grid by nearbyint (ties to even) on a scaled double.
double rounded_to_grid(double x, int minimum_exponent, int mantissa_bits, double largest) {
  if (!std::isfinite(x) || x == 0) return x;
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(x), minimum_exponent) - mantissa_bits);
  const double y = std::nearbyint(x / quantum) * quantum;
  return std::abs(y) > largest ? std::copysign(std::numeric_limits<double>::infinity(), x) : y;
}
double half_oracle(float x) { return rounded_to_grid(x, -14, 10, 65504); }
double bfloat16_oracle(float x) { return rounded_to_grid(x, -126, 7, std::ldexp(255.0, 120)); }

::testing::AssertionResult same(double a, double b) {
  if ((std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b))) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << a << " is not " << b;
}

TEST(Half, All65536PatternsHaveTheirValueAndRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const Half h{static_cast<std::uint16_t>(bits)};
    ASSERT_TRUE(same(to_float(h), value_of(bits, 5, 10))) << bits;
    if (!std::isnan(to_float(h))) ASSERT_EQ(to_half(to_float(h)).bits, bits);
    else ASSERT_TRUE(std::isnan(to_float(to_half(to_float(h))))) << bits;
  }
}

TEST(BFloat16, All65536PatternsHaveTheirValueAndRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const BFloat16 b{static_cast<std::uint16_t>(bits)};
    ASSERT_TRUE(same(to_float(b), value_of(bits, 8, 7))) << bits;
    if (!std::isnan(to_float(b))) ASSERT_EQ(to_bfloat16(to_float(b)).bits, bits);
    else ASSERT_TRUE(std::isnan(to_float(to_bfloat16(to_float(b))))) << bits;
  }
}

// Every midpoint between neighbours, and its two neighbours in f32: the cases where rounding can go wrong.
TEST(Half, RoundsToNearestEvenAroundEveryMidpoint) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = to_float(Half{static_cast<std::uint16_t>(bits)});
    const float middle = (low + to_float(Half{static_cast<std::uint16_t>(bits + 1)})) / 2;
    for (float x : {middle, std::nextafterf(middle, 0.0f), std::nextafterf(middle, 1e9f)})
      for (float signed_x : {x, -x}) ASSERT_TRUE(same(to_float(to_half(signed_x)), half_oracle(signed_x))) << signed_x;
  }
}

TEST(HalfAndBFloat16, AgreeWithTheOracleOnRandomBitPatterns) {
  const Random random(99, "float bits");
  for (std::uint64_t i = 0; i < 2'000'000; ++i) {
    const float x = std::bit_cast<float>(random.bits32(i));
    ASSERT_TRUE(same(to_float(to_half(x)), half_oracle(x))) << "seed 99, index " << i;
    ASSERT_TRUE(same(to_float(to_bfloat16(x)), bfloat16_oracle(x))) << "seed 99, index " << i;
  }
}

TEST(HalfAndBFloat16, EdgesOverflowAndUnderflowAsIeeeSays) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_half(65519.996f).bits, 0x7bff);
  EXPECT_EQ(to_half(65520.0f).bits, 0x7c00);  // tie goes to the even neighbour: infinity
  EXPECT_EQ(to_half(-inf).bits, 0xfc00);
  EXPECT_EQ(to_half(0x1p-25f).bits, 0);  // tie with zero
  EXPECT_EQ(to_half(0x1.000002p-25f).bits, 1);
  EXPECT_EQ(to_half(-0.0f).bits, 0x8000);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7f800001u)).bits & 0x7fffu, 0x7fc0u);  // payload in the low bits only
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(DType, NamesParseBackAndUnknownOnesListWhatExists) {
  for (DType t : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8, DType::u16, DType::i32, DType::i64})
    EXPECT_EQ(parse_dtype(name_of(t)), t);
  EXPECT_EQ(size_of(dtype_of<BFloat16>), 2u);
  try {
    parse_dtype("fp8");
    FAIL() << "fp8 was accepted";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("fp8"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("bf16"), std::string::npos);
  }
}

TEST(Shape, SeesATensorAsTokensByChannels) {
  const Shape s{8, 128, 512};
  EXPECT_EQ(s.elements(), 8 * 128 * 512);
  EXPECT_EQ(s.rows(), 8 * 128);
  EXPECT_EQ(s.columns(), 512);
  EXPECT_EQ(s.to_string(), "[8, 128, 512]");
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ(Shape{}.rows(), 1);
  EXPECT_EQ((Shape{7}).rows(), 1);
  EXPECT_EQ((Shape{3, 0}).rows(), 0);
  EXPECT_EQ((Shape{0, 3}).rows(), 0);
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2, 3}), (Shape{2, 3, 1}));
  EXPECT_THROW((Shape{1, 1, 1, 1, 1}), RuntimeFailure);
  EXPECT_THROW((Shape{-1}), RuntimeFailure);
}

TEST(Tensor, ViewsShareMemoryAndRefuseWrongTypesAndRanges) {
  Tensor t(Shape{3, 5});
  for (std::size_t i = 0; i < 15; ++i) t.as<float>()[i] = static_cast<float>(i);
  EXPECT_EQ(t.view().flat_slice(4, 3).as<float>()[0], 4.0f);
  EXPECT_EQ(t.view().reshaped(Shape{15}).as<float>()[14], 14.0f);
  EXPECT_EQ(t.bytes(), 60u);
  EXPECT_THROW(t.as<double>(), RuntimeFailure);
  EXPECT_THROW(t.view().flat_slice(10, 6), RuntimeFailure);
  EXPECT_THROW(t.view().reshaped(Shape{4, 4}), RuntimeFailure);
}

TEST(Statistics, QuantilesAreThoseOfNumpyType7) {
  const std::vector<double> x = {3, 1, 4, 1, 5, 9, 2, 6};  // np.quantile(x, [0, .1, .25, .5, .75, .95, 1])
  EXPECT_DOUBLE_EQ(quantile(x, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(x, 0.1), 1);
  EXPECT_DOUBLE_EQ(quantile(x, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(x, 0.5), 3.5);
  EXPECT_DOUBLE_EQ(quantile(x, 0.75), 5.25);
  EXPECT_NEAR(quantile(x, 0.95), 7.95, 1e-12);
  EXPECT_DOUBLE_EQ(quantile(x, 1), 9);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{42}), 42);
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(median(std::vector<double>{1, std::nan(""), 2})));
}

TEST(Statistics, SummaryOfAnArithmeticSequenceHasItsClosedForm) {
  std::vector<double> x;
  for (int i = 100; i >= 0; --i) x.push_back(i);  // 0 .. 100, shuffled by reversal
  const Summary s = summarize(x);
  EXPECT_EQ(s.count, 101u);
  EXPECT_DOUBLE_EQ(s.minimum, 0);
  EXPECT_DOUBLE_EQ(s.median, 50);
  EXPECT_DOUBLE_EQ(s.mean, 50);
  EXPECT_DOUBLE_EQ(s.maximum, 100);
  EXPECT_DOUBLE_EQ(s.interquartile_range, 50);
  EXPECT_DOUBLE_EQ(s.p95, 95);
  EXPECT_DOUBLE_EQ(s.p99, 99);
  EXPECT_DOUBLE_EQ(s.relative_noise(), 1);
}

TEST(Statistics, P99IsWithheldBelow100Samples) {
  EXPECT_TRUE(std::isnan(summarize(std::vector<double>(99, 1.0)).p99));
  EXPECT_DOUBLE_EQ(summarize(std::vector<double>(100, 1.0)).p99, 1.0);
  EXPECT_TRUE(std::isnan(summarize({}).median));
}

TEST(Statistics, EntropyOfAUniformHistogramIsTheLogOfItsSize) {
  EXPECT_NEAR(entropy_nats(std::vector<double>(256, 3.0)), std::log(256), 1e-12);
  EXPECT_DOUBLE_EQ(entropy_nats(std::vector<double>{0, 17, 0}), 0);
  EXPECT_DOUBLE_EQ(entropy_nats({}), 0);
  EXPECT_NEAR(entropy_nats(std::vector<double>{1, 3}), 0.25 * std::log(4) + 0.75 * std::log(4.0 / 3), 1e-15);
}

}  // namespace
}  // namespace thinwire
