// labels: unit
// Which library multiplies f32 matrices: the choice as text, the classes of shapes, and oneDNN's products against sums in f64.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>

#include "core/error.h"
#include "kernels/nn/gemm/onednn_product.h"
#include "kernels/nn/gemm/product_library.h"
#include "support/product_cases.h"
#include "support/temporary_folder.h"

namespace thinwire::nn {
namespace {

using testing::expect_product;
using testing::normal_values;
using testing::ProductCase;

/// The process's choice is as before when the test is over.
struct Chosen {
  explicit Chosen(const std::string& text) { set_product_library(parse_product_library(text)); }
  ~Chosen() { set_product_library({}); }
};

TEST(ProductLibrary, EveryChoiceComesBackFromItsTextAndNoTwoShareOne) {
  std::set<std::string> texts;
  for (const char* kernels : {"", "Haswell", "SkylakeX"})
    for (unsigned bits = 0; bits < 512; ++bits) {
      ProductLibrary choice{kernels, {}};
      for (std::size_t i = 0; i < 9; ++i) choice.onednn[i] = (bits >> i & 1) != 0;
      EXPECT_EQ(parse_product_library(choice.text()), choice) << choice.text();
      EXPECT_TRUE(texts.insert(choice.text()).second) << choice.text();
    }
  EXPECT_EQ(texts.size(), 3u * 512u);
}

TEST(ProductLibrary, SpellingsOfOneChoiceHaveOneText) {
  EXPECT_EQ(parse_product_library("openblas:large_nn=onednn,kernels=SkylakeX,small_nn=openblas").text(), "openblas:kernels=SkylakeX,large_nn=onednn");
  EXPECT_EQ(parse_product_library("onednn").text(), "onednn");
  EXPECT_EQ(parse_product_library("").text(), "openblas");
}

TEST(ProductLibrary, WhatIsNoChoiceIsRefusedByItsFaultyPart) {
  const std::array<std::array<const char*, 2>, 9> bad = {{{"mkl", "mkl"},
                                                          {"openblas:", "key=value"},
                                                          {"openblas:large_nn", "large_nn"},
                                                          {"openblas:large_nn=", "large_nn="},
                                                          {"openblas:large_n=onednn", "did you mean `large_nn`"},
                                                          {"openblas:large_nn=mkl", "mkl"},
                                                          {"openblas:large_nn=onednn,large_nn=openblas", "twice"},
                                                          {"openblas:kernels=a b", "a b"},
                                                          {"openblas,large_nn=onednn", "openblas,large_nn"}}};
  for (const auto& [text, part] : bad)
    EXPECT_NE(thinwire::testing::message_of<UsageError>([&, t = text] { (void)parse_product_library(t); }).find(part), std::string::npos) << text;
}

TEST(ProductLibrary, ClassesAreSizesAndTransposes) {
  constexpr auto no = Transpose::no, yes = Transpose::yes;
  EXPECT_STREQ(product_classes[static_cast<std::size_t>(product_class(no, no, 1, 1, 1))], "small_nn");
  EXPECT_STREQ(product_classes[static_cast<std::size_t>(product_class(no, yes, 512, 256, 256))], "medium_nt");  // 2^26
  EXPECT_STREQ(product_classes[static_cast<std::size_t>(product_class(no, yes, 511, 256, 256))], "small_nt");
  EXPECT_STREQ(product_classes[static_cast<std::size_t>(product_class(yes, no, 512, 1024, 1024))], "large_tn");  // 2^30
  EXPECT_EQ(product_class(yes, yes, 8, 8, 8), -1);
  EXPECT_EQ(product_class(no, no, 0, 8, 8), -1);
  EXPECT_EQ(product_class(no, no, 8, 8, 0), -1);
}

TEST(OneDnnProduct, InF32EqualsTheSumsInF64ForTransposesStridesAndBothBetas) {
  if (!detail::onednn_is_here()) GTEST_SKIP() << "SKIPPED: oneDNN is not here";
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {1, 7, 5}, {7, 1, 3}, {17, 33, 29}, {5, 129, 257}})
    for (const Transpose ta : {Transpose::no, Transpose::yes})
      for (const Transpose tb : {Transpose::no, Transpose::yes})
        for (const float beta : {0.0f, 1.0f}) {
          const std::int64_t pad = (beta == 0) == (ta == tb) ? 0 : 3;  // dense and strided, each with either beta: making a primitive takes milliseconds
          const ProductCase p{ta, tb, m, n, k, pad, 2 * pad, pad, beta};
          const auto a = normal_values(p.size_a(), "a"), b = normal_values(p.size_b(), "b"), before = normal_values(m * p.ldc(), "c");
          auto c = before;
          detail::gemm_f32_onednn(ta, tb, m, n, k, a.data(), p.lda(), b.data(), p.ldb(), beta, c.data(), p.ldc());
          expect_product(p, a, b, before, c);
          auto again = before;
          detail::gemm_f32_onednn(ta, tb, m, n, k, a.data(), p.lda(), b.data(), p.ldb(), beta, again.data(), p.ldc());
          EXPECT_EQ(c, again) << p.name() << ": other bits in the second call";
        }
}

TEST(OneDnnProduct, BetaZeroOverwritesNan) {
  if (!detail::onednn_is_here()) GTEST_SKIP() << "SKIPPED: oneDNN is not here";
  const Chosen choice("onednn");
  const std::vector<float> a = {1, 2}, b = {3, 4};
  std::vector<float> c = {std::numeric_limits<float>::quiet_NaN()};
  gemm<float>(Transpose::no, Transpose::no, 1, 1, 2, 1, a.data(), 2, b.data(), 1, 0, c.data(), 1);
  EXPECT_EQ(c[0], 11);
}

// Terms that cancel: the two libraries add in different orders, so their bits tell who multiplied.
TEST(ProductLibrary, TheChoiceDecidesWhoMultipliesAndOnlyItsClasses) {
  if (!detail::onednn_is_here()) GTEST_SKIP() << "SKIPPED: oneDNN is not here";
  const ProductCase p{Transpose::no, Transpose::yes, 67, 45, 1009, 0, 0, 0, 0};
  const auto a = normal_values(p.size_a(), "a"), b = normal_values(p.size_b(), "b");
  const auto run = [&](const std::string& text, float alpha = 1) {
    const Chosen choice(text);
    std::vector<float> c(static_cast<std::size_t>(p.m * p.n));
    gemm<float>(p.ta, p.tb, p.m, p.n, p.k, alpha, a.data(), p.lda(), b.data(), p.ldb(), 0, c.data(), p.n);
    return c;
  };
  std::vector<float> onednn(static_cast<std::size_t>(p.m * p.n));
  detail::gemm_f32_onednn(p.ta, p.tb, p.m, p.n, p.k, a.data(), p.lda(), b.data(), p.ldb(), 0, onednn.data(), p.n);
  const auto openblas = run("");
  expect_product(p, a, b, openblas, openblas);
  if (onednn == openblas) GTEST_SKIP() << "SKIPPED: both libraries give the same bits here, which tells nothing";
  EXPECT_EQ(run("onednn"), onednn);
  EXPECT_EQ(run("openblas:small_nt=onednn"), onednn);
  EXPECT_EQ(run("openblas:small_nn=onednn,large_nt=onednn"), openblas);
  EXPECT_EQ(run("onednn:small_nt=openblas"), openblas);
  EXPECT_EQ(run("onednn", 2), run("", 2)) << "alpha other than 1 is OpenBLAS's";
  EXPECT_EQ(run(""), openblas) << "a choice outlived its test";
}

TEST(ProductLibrary, AThreadOfAParallelRegionKeepsToOpenBlas) {
  if (!detail::onednn_is_here()) GTEST_SKIP() << "SKIPPED: oneDNN is not here";
  const ProductCase p{Transpose::no, Transpose::no, 31, 37, 501, 0, 0, 0, 0};
  const auto a = normal_values(p.size_a(), "a"), b = normal_values(p.size_b(), "b");
  const auto run = [&](const std::string& text) {
    const Chosen choice(text);
    std::vector<float> c(static_cast<std::size_t>(p.m * p.n));
#pragma omp parallel num_threads(2)
#pragma omp single
    gemm<float>(p.ta, p.tb, p.m, p.n, p.k, 1, a.data(), p.lda(), b.data(), p.ldb(), 0, c.data(), p.n);
    return c;
  };
  EXPECT_EQ(run("onednn"), run(""));
}

}  // namespace
}  // namespace thinwire::nn
