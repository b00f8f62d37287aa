// labels: unit
// Attention in both directions over padded sequences against its definition and finite differences of that, and the exact GELU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/half.h"
#include "core/random.h"
#include "kernels/nn/attention/attention.h"
#include "kernels/nn/gelu.h"
#include "support/simd_targets.h"

namespace thinwire::nn {
namespace {

std::vector<double> normal(std::int64_t count, const char* name) {
  const Random random(3, name);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
  return values;
}

/// Softmax over the keys in front of the padding, sum by sum.
std::vector<double> definition(const AttentionShape& s, const std::vector<std::int32_t>& lengths, const std::vector<double>& qkv) {
  std::vector<double> out(static_cast<std::size_t>(s.batch * s.seq * s.hidden()));
  const auto at = [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t which, std::int64_t c) {
    return qkv[static_cast<std::size_t>((((b * s.seq + t) * s.heads + h) * 3 + which) * s.head_size + c)];
  };
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t q = 0; q < s.seq; ++q) {
        const std::int64_t keys = lengths.empty() ? s.seq : lengths[static_cast<std::size_t>(b)];
        std::vector<double> weight;
        double total = 0;
        for (std::int64_t k = 0; k < keys; ++k) {
          double score = 0;
          for (std::int64_t c = 0; c < s.head_size; ++c) score += at(b, q, h, 0, c) * at(b, k, h, 1, c);
          weight.push_back(std::exp(score / std::sqrt(static_cast<double>(s.head_size))));
          total += weight.back();
        }
        for (std::int64_t k = 0; k < keys; ++k)
          for (std::int64_t c = 0; c < s.head_size; ++c)
            out[static_cast<std::size_t>(((b * s.seq + q) * s.heads + h) * s.head_size + c)] += weight[static_cast<std::size_t>(k)] / total * at(b, k, h, 2, c);
      }
  return out;
}

struct Case {
  AttentionShape shape;
  std::vector<std::int32_t> lengths;
};
const std::vector<Case> cases = {{{1, 1, 1, 1}, {1}}, {{3, 7, 3, 5}, {7, 1, 4}}, {{2, 5, 2, 3}, {}}, {{2, 64, 1, 8}, {64, 63}}, {{2, 131, 2, 4}, {130, 65}}};

TEST(PaddedAttention, EqualsItsDefinitionAcrossBlockBorders) {
  for (const auto& [s, lengths] : cases) {
    const std::vector<double> qkv = normal(s.batch * s.seq * 3 * s.hidden(), "qkv"), expected = definition(s, lengths, qkv);
    const std::int32_t* given = lengths.empty() ? nullptr : lengths.data();
    std::vector<double> context(expected.size()), lse(static_cast<std::size_t>(s.batch * s.heads * s.seq));
    padded_attention_forward<double>(s, given, qkv.data(), context.data(), lse.data());
    const std::vector<float> narrow(qkv.begin(), qkv.end());
    std::vector<float> context32(expected.size()), lse32(lse.size());
    padded_attention_forward<float>(s, given, narrow.data(), context32.data(), lse32.data());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(context[i], expected[i], 1e-12) << "seq " << s.seq << " element " << i;
      ASSERT_NEAR(context32[i], expected[i], 2e-5) << "seq " << s.seq << " element " << i;
    }
  }
}

TEST(PaddedAttention, GradientIsThatOfFiniteDifferencesOfItsDefinition) {
  for (const auto& [s, lengths] : cases) {
    std::vector<double> qkv = normal(s.batch * s.seq * 3 * s.hidden(), "qkv");
    const std::vector<double> weights = normal(s.batch * s.seq * s.hidden(), "dout");
    std::vector<double> context(weights.size()), lse(static_cast<std::size_t>(s.batch * s.heads * s.seq)), gradient(qkv.size(), NAN);
    const std::int32_t* given = lengths.empty() ? nullptr : lengths.data();
    padded_attention_forward<double>(s, given, qkv.data(), context.data(), lse.data());
    padded_attention_backward<double>(s, given, qkv.data(), context.data(), lse.data(), weights.data(), gradient.data());
    const auto objective = [&] {
      const std::vector<double> out = definition(s, lengths, qkv);
      double sum = 0;
      for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * weights[i];
      return sum;
    };
    const std::size_t stride = 1 + qkv.size() / 60;
    for (std::size_t i = 0; i < qkv.size(); i += stride) {
      const double kept = qkv[i], step = 1e-5;
      qkv[i] = kept + step;
      const double above = objective();
      qkv[i] = kept - step;
      const double below = objective();
      qkv[i] = kept;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-7) << "seq " << s.seq << " element " << i;
    }
  }
}

TEST(PaddedAttention, GivesKeysAndValuesOfPaddingNoGradient) {
  const AttentionShape s{2, 6, 2, 3};
  const std::vector<std::int32_t> lengths = {2, 5};
  const std::vector<double> qkv = normal(s.batch * s.seq * 3 * s.hidden(), "qkv"), dout = normal(s.batch * s.seq * s.hidden(), "dout");
  std::vector<double> context(dout.size()), lse(24), gradient(qkv.size(), NAN);
  padded_attention_forward<double>(s, lengths.data(), qkv.data(), context.data(), lse.data());
  padded_attention_backward<double>(s, lengths.data(), qkv.data(), context.data(), lse.data(), dout.data(), gradient.data());
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t t = 0; t < s.seq; ++t)
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t c = s.head_size; c < 3 * s.head_size; ++c) {
          const double g = gradient[static_cast<std::size_t>(((b * s.seq + t) * s.heads + h) * 3 * s.head_size + c)];
          EXPECT_EQ(g == 0, t >= lengths[static_cast<std::size_t>(b)]) << b << " " << t << " " << g;
        }
}

TEST(PaddedAttention, RefusesLengthsOutsideTheSequence) {
  const AttentionShape s{2, 4, 1, 2};
  std::vector<double> qkv(48), context(16), lse(8);
  for (const std::int32_t wrong : {0, 5, -1}) {
    const std::vector<std::int32_t> lengths = {4, wrong};
    EXPECT_THROW(padded_attention_forward<double>(s, lengths.data(), qkv.data(), context.data(), lse.data()), CorruptData) << wrong;
  }
}

TEST(GeluErf, IsXTimesTheNormalDistributionAndItsGradientThatOfFiniteDifferences) {
  // Phi(1), Phi(-3), Phi(0.5): tables of the normal distribution.
  const std::vector<double> x = {0, 1, -3, 0.5, -12}, expected = {0, 0.84134474606854293, -3 * 0.0013498980316300933, 0.5 * 0.69146246127401312, -12 * 1.7764821120776759e-33};
  std::vector<double> y(x.size()), gradient(x.size());
  const std::vector<double> ones(x.size(), 1);
  gelu_erf_forward<double>(5, x.data(), y.data());
  gelu_erf_backward<double>(5, x.data(), ones.data(), gradient.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], expected[i], 1e-13 * std::abs(expected[i])) << x[i];
    double near[2] = {x[i] + 1e-6, x[i] - 1e-6};
    gelu_erf_forward<double>(2, near, near);
    EXPECT_NEAR(gradient[i], (near[0] - near[1]) / 2e-6, 1e-9) << x[i];
  }
}

TEST(GeluErf, InF32IsThatOfF64InBothTailsOnEverySimdTarget) {
  std::vector<float> x = {0.0f, -0.0f, 1e-30f, -1e-30f, 30.0f, 1e30f, std::numeric_limits<float>::infinity()};
  for (int i = -13000; i <= 9000; ++i) x.push_back(static_cast<float>(i) * 1e-3f);
  const auto count = static_cast<std::int64_t>(x.size());
  const std::vector<double> wide(x.begin(), x.end()), ones(x.size(), 1);
  std::vector<double> y(x.size()), gradient(x.size());
  gelu_erf_forward<double>(count, wide.data(), y.data());
  gelu_erf_backward<double>(count, wide.data(), ones.data(), gradient.data());
  testing::on_every_simd_target([&] {
    std::vector<float> narrow(x.size()), slope(x.size(), 1.0f);
    gelu_erf_forward<float>(count, x.data(), narrow.data());
    gelu_erf_backward<float>(count, x.data(), slope.data(), slope.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isinf(x[i])) {
        EXPECT_EQ(narrow[i], x[i]);
        continue;
      }
      // Targets without fused products do not see what the rounding of x^2 loses, up to 5e-6 of the density at 13.
      const double bound = 8e-7 + 4e-8 * wide[i] * wide[i];
      ASSERT_NEAR(narrow[i], y[i], bound * std::abs(y[i]) + 1e-37) << x[i];
      // Phi and x phi cancel where the slope is 0: each is right to the bound of itself.
      const double phi = 0.39894228040143267794 * std::exp(-wide[i] * wide[i] / 2);
      ASSERT_NEAR(slope[i], gradient[i], bound * (std::abs(gradient[i]) + std::abs(wide[i]) * phi) + 1e-37) << x[i];
    }
    const float bad[3] = {std::nanf(""), 1.0f, std::nanf("")};
    float made[3];
    gelu_erf_forward<float>(3, bad, made);
    EXPECT_TRUE(std::isnan(made[0]) && std::isnan(made[2]));
  });
}

TEST(Gelu, OfValuesInBf16IsThatInF32Rounded) {
  const std::vector<double> values = normal(5003, "x");  // more than a piece, and a rest
  std::vector<BFloat16> x(values.size()), y(values.size());
  std::vector<float> wide(x.size()), made(x.size()), gradient(x.size()), dy(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = to_bfloat16(static_cast<float>(values[i]) * 3), wide[i] = to_float(x[i]);
    dy[i] = static_cast<float>(i % 7) - 3;
  }
  const auto count = static_cast<std::int64_t>(x.size());
  const auto check = [&](auto forward, auto backward, auto rounded_forward, auto rounded_backward) {
    forward(count, wide.data(), made.data());
    rounded_forward(count, x.data(), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i].bits, to_bfloat16(made[i]).bits) << i;
    backward(count, wide.data(), dy.data(), made.data());
    gradient = dy;
    rounded_backward(count, x.data(), gradient.data(), gradient.data());
    ASSERT_EQ(gradient, made);
  };
  using Forward = void (*)(std::int64_t, const BFloat16*, BFloat16*);
  using Backward = void (*)(std::int64_t, const BFloat16*, const float*, float*);
  check(gelu_forward<float>, gelu_backward<float>, Forward(gelu_forward), Backward(gelu_backward));
  check(gelu_erf_forward<float>, gelu_erf_backward<float>, Forward(gelu_erf_forward), Backward(gelu_erf_backward));
}

}  // namespace
}  // namespace thinwire::nn
