// Matrix products against their sums in f64: operands, references and the bounds that libraries must keep.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/half.h"
#include "core/random.h"
#include "kernels/nn/gemm/gemm.h"

namespace thinwire::testing {

inline constexpr std::uint64_t product_seed = 20251125;

inline std::vector<float> normal_values(std::int64_t count, const std::string& name) {
  const Random random(product_seed, name);
  std::vector<float> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(random.normal(i));
  return v;
}

inline std::vector<float> rounded_to_bf16(std::vector<float> v) {
  for (float& x : v) x = to_float(to_bfloat16(x));
  return v;
}

struct ProductCase {
  nn::Transpose ta, tb;
  std::int64_t m, n, k, pad_a, pad_b, pad_c;  ///< pads: elements between stored rows
  float beta;
  std::int64_t lda() const { return (ta == nn::Transpose::yes ? m : k) + pad_a; }
  std::int64_t ldb() const { return (tb == nn::Transpose::yes ? k : n) + pad_b; }
  std::int64_t ldc() const { return n + pad_c; }
  std::int64_t size_a() const { return lda() * (ta == nn::Transpose::yes ? k : m); }
  std::int64_t size_b() const { return ldb() * (tb == nn::Transpose::yes ? n : k); }
  std::string name() const {
    return std::string(ta == nn::Transpose::yes ? "t" : "n") + (tb == nn::Transpose::yes ? "t" : "n") + " " + std::to_string(m) + " x " + std::to_string(n) + " x " +
           std::to_string(k) + ", beta " + std::to_string(beta) + ", seed " + std::to_string(product_seed);
  }
};

/// C against the sums in f64 of what `a` and `b` hold: each element within 2 k + 2 roundings of f32 of the sum of its terms' sizes (Higham, Accuracy
/// and Stability of Numerical Algorithms, 3.5: any order of summation). Between the rows of C nothing has changed.
inline void expect_product(const ProductCase& p, const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& before,
                           const std::vector<float>& c) {
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.ldc(); ++j) {
      const auto at = static_cast<std::size_t>(i * p.ldc() + j);
      if (j >= p.n) {
        ASSERT_EQ(c[at], before[at]) << p.name() << ": between rows";
        continue;
      }
      double sum = p.beta == 0 ? 0.0 : double{before[at]}, size = std::abs(sum);
      for (std::int64_t l = 0; l < p.k; ++l) {
        const double term = double{a[static_cast<std::size_t>(p.ta == nn::Transpose::yes ? l * p.lda() + i : i * p.lda() + l)]} *
                            double{b[static_cast<std::size_t>(p.tb == nn::Transpose::yes ? j * p.ldb() + l : l * p.ldb() + j)]};
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(c[at], sum, static_cast<double>(2 * p.k + 2) * 0x1p-24 * size) << p.name() << " at (" << i << ", " << j << ")";
    }
}

}  // namespace thinwire::testing
