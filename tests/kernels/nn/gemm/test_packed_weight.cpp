// labels: unit
// Products in bf16 with weights that are packed once: against sums in f64 of the rounded operands, and never with old values. On processors that
// cannot multiply bf16 themselves the same path runs through oneDNN's conversions.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "core/half.h"
#include "kernels/nn/gemm/onednn_product.h"
#include "kernels/nn/gemm/packed_weight.h"
#include "support/product_cases.h"
#include "support/temporary_folder.h"

namespace thinwire::nn {
namespace {

using testing::expect_product;
using testing::normal_values;
using testing::ProductCase;
using testing::rounded_to_bf16;

struct PackedProducts : ::testing::Test {
  void SetUp() override {
    if (!detail::onednn_has_bf16()) GTEST_SKIP() << "SKIPPED: oneDNN has no bf16 product on this processor (needs AVX-512)";
    setenv("THINWIRE_SLOW_BF16", "1", 1);
  }
  void TearDown() override { unsetenv("THINWIRE_SLOW_BF16"); }

  static std::vector<float> multiply(const ProductCase& p, const std::vector<float>& a, const std::vector<float>& w, std::vector<float> c) {
    gemm_packed(p.tb, p.m, p.n, p.k, {a.data(), p.lda()}, w.data(), p.ldb(), {c.data(), p.beta});
    return c;
  }
};

TEST_F(PackedProducts, EqualTheSumsInF64OfRoundedOperands) {
  PackedWeights weights;
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {1, 7, 5}, {7, 5, 3}, {33, 64, 127}, {17, 129, 31}, {64, 96, 512}})
    for (const Transpose tw : {Transpose::no, Transpose::yes})
      for (const float beta : {0.0f, 1.0f}) {
        const PackedWeightsScope scope(weights);
        const ProductCase p{Transpose::no, tw, m, n, k, 2, 3, 0, beta};
        const auto a = normal_values(p.size_a(), "a"), w = normal_values(p.size_b(), "w"), before = normal_values(m * n, "c");
        const auto c = multiply(p, a, w, before);
        expect_product(p, rounded_to_bf16(a), rounded_to_bf16(w), before, c);
        EXPECT_EQ(multiply(p, a, w, before), c) << p.name() << ": other bits with the weight that was kept";
      }
}

TEST_F(PackedProducts, AWeightIsPackedOncePerScopeAndTheNextSeesItsNewValues) {
  const ProductCase p{Transpose::no, Transpose::no, 24, 40, 56, 0, 0, 0, 0};
  const auto a = normal_values(p.size_a(), "a");
  auto w = normal_values(p.size_b(), "w");
  const std::vector<float> zero(static_cast<std::size_t>(p.m * p.n));
  PackedWeights weights;
  std::vector<float> first;
  {
    const PackedWeightsScope scope(weights);
    first = multiply(p, a, w, zero);
    for (int micro = 0; micro < 3; ++micro) EXPECT_EQ(multiply(p, a, w, zero), first);
    EXPECT_EQ(weights.packed(), 1);
  }
  EXPECT_EQ(PackedWeightsScope::current(), nullptr);
  for (float& x : w) x = -2 * x;  // an update
  const PackedWeightsScope scope(weights);
  const auto second = multiply(p, a, w, zero);
  EXPECT_EQ(weights.packed(), 2);
  for (std::size_t i = 0; i < first.size(); ++i) ASSERT_EQ(second[i], -2 * first[i]) << i;  // exact: a power of two
}

TEST_F(PackedProducts, AScopeInsideAnotherPacksForItself) {
  const ProductCase p{Transpose::no, Transpose::no, 8, 16, 16, 0, 0, 0, 0};
  const auto a = normal_values(p.size_a(), "a");
  auto w = normal_values(p.size_b(), "w");
  const std::vector<float> zero(static_cast<std::size_t>(p.m * p.n));
  PackedWeights weights;
  const PackedWeightsScope outer(weights);
  (void)multiply(p, a, w, zero);
  for (float& x : w) x *= 4;
  const PackedWeightsScope inner(weights);
  expect_product(p, rounded_to_bf16(a), rounded_to_bf16(w), zero, multiply(p, a, w, zero));
}

TEST_F(PackedProducts, BothWaysOfMultiplyingAndOtherNumbersOfRowsAreKeptApart) {
  PackedWeights weights;
  const PackedWeightsScope scope(weights);
  const auto w = normal_values(48 * 48, "w");  // square: nothing but the transpose tells
  for (const std::int64_t m : {64, 3, 64, 1})
    for (const Transpose tw : {Transpose::no, Transpose::yes}) {
      const ProductCase p{Transpose::no, tw, m, 48, 48, 0, 0, 0, 0};
      const auto a = normal_values(p.size_a(), "a");
      const std::vector<float> zero(static_cast<std::size_t>(m * 48));
      expect_product(p, rounded_to_bf16(a), rounded_to_bf16(w), zero, multiply(p, a, w, zero));
    }
}

TEST_F(PackedProducts, WhatWasNotUsedInAScopeIsGivenBack) {
  const ProductCase p{Transpose::no, Transpose::no, 4, 64, 64, 0, 0, 0, 0};
  const auto a = normal_values(p.size_a(), "a"), w = normal_values(p.size_b(), "w"), other = normal_values(p.size_b(), "other");
  const std::vector<float> zero(static_cast<std::size_t>(p.m * p.n));
  PackedWeights weights;
  EXPECT_EQ(weights.bytes(), 0);
  for (const auto* used : {&w, &other, &other}) {
    const PackedWeightsScope scope(weights);
    (void)multiply(p, a, *used, zero);
  }
  EXPECT_GE(weights.bytes(), 64 * 64 * 2);
  EXPECT_LT(weights.bytes(), 2 * 64 * 64 * 2) << "the first weight is still kept";
}

TEST_F(PackedProducts, OperandsRoundedBeforeAndResultsRoundedAfterwardsAreThoseInF32) {
  PackedWeights weights;
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {7, 5, 3}, {33, 64, 127}, {64, 96, 512}})
    for (const Transpose ta : {Transpose::no, Transpose::yes})
      for (const Transpose tw : {Transpose::no, Transpose::yes}) {
        const PackedWeightsScope scope(weights);
        const ProductCase p{ta, tw, m, n, k, 0, 0, 0, 0};
        const auto a = normal_values(p.size_a(), "a"), w = normal_values(p.size_b(), "w"), bias = normal_values(n, "bias");
        std::vector<BFloat16> rounded_a(a.size()), rounded_w(w.size()), narrow(static_cast<std::size_t>(m * n));
        for (std::size_t i = 0; i < a.size(); ++i) rounded_a[i] = to_bfloat16(a[i]);
        for (std::size_t i = 0; i < w.size(); ++i) rounded_w[i] = to_bfloat16(w[i]);
        std::vector<float> wide(narrow.size()), again(wide);
        const Bf16Operand left{a.data(), p.lda()}, left16{nullptr, 0, rounded_a.data()}, right{w.data(), p.ldb()}, right16{nullptr, 0, rounded_w.data()};
        const auto expect_rounded = [&](const char* what) {
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
              const auto at = static_cast<std::size_t>(i * n + j);
              const double sum = double{wide[at]} + double{bias[static_cast<std::size_t>(j)]};
              // Half a unit in the last place of bf16, and what another order of summation may change.
              ASSERT_NEAR(to_float(narrow[at]), sum, 0x1p-8 * std::abs(sum) + 1e-5 * std::sqrt(static_cast<double>(k))) << p.name() << " " << what << " " << i << ", " << j;
            }
        };
        gemm_bf16(ta, tw, m, n, k, left, right, {wide.data()});
        gemm_bf16(ta, tw, m, n, k, left16, right16, {again.data()});
        ASSERT_EQ(wide, again) << p.name();
        gemm_bf16(ta, tw, m, n, k, left16, right, {nullptr, 0, narrow.data(), bias.data()});
        expect_rounded("as stored");
        if (ta == Transpose::yes) continue;  // packed products are those of rows
        gemm_packed(tw, m, n, k, left, w.data(), p.ldb(), {wide.data()});
        gemm_packed(tw, m, n, k, left16, w.data(), p.ldb(), {again.data()});
        ASSERT_EQ(wide, again) << p.name();
        gemm_packed(tw, m, n, k, left16, w.data(), p.ldb(), {nullptr, 0, narrow.data(), bias.data()});
        expect_rounded("packed");
      }
}

TEST(Bf16Products, AreRefusedWhereTheProcessorHasNoneUnlessTheTestAsksForSlowOnes) {
  unsetenv("THINWIRE_SLOW_BF16");
  const std::string reason = why_no_bf16_gemm();
  if (reason.empty()) GTEST_SKIP() << "SKIPPED: this processor multiplies bf16 itself";
  const std::vector<float> a = {1}, w = {1};
  std::vector<float> c = {0};
  PackedWeights weights;
  const PackedWeightsScope scope(weights);
  const auto message = thinwire::testing::message_of<UsageError>([&] { gemm_packed(Transpose::no, 1, 1, 1, {a.data(), 1}, w.data(), 1, {c.data()}); });
  EXPECT_NE(message.find(reason), std::string::npos) << message;
  if (!detail::onednn_has_bf16()) return;
  setenv("THINWIRE_SLOW_BF16", "yes", 1);
  EXPECT_FALSE(why_no_bf16_gemm().empty()) << "only 1 asks for it";
  setenv("THINWIRE_SLOW_BF16", "1", 1);
  EXPECT_EQ(why_no_bf16_gemm(), "");
  unsetenv("THINWIRE_SLOW_BF16");
}

}  // namespace
}  // namespace thinwire::nn
