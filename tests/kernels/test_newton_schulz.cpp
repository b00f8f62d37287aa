// labels: unit
// Orthogonal matrices nearly by Newton-Schulz, and orthonormal columns: the worked examples of
// docs/papers/low_communication.md, "Worked examples", plain loops in float64, and what holds for every
// shape.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/matrix/gram_schmidt.h"
#include "kernels/matrix/newton_schulz.h"
#include "support/codec_rounds.h"

namespace thinwire {
namespace {

using testing::normal_numbers;
using Matrix = std::vector<double>;

std::vector<double> applied(const std::string& name, std::int64_t rows, std::int64_t columns, Matrix x) {
  Orthogonaliser<double>(newton_schulz(name)).apply(rows, columns, x.data());
  return x;
}

TEST(NewtonSchulz, GivesThePagesMatrices) {
  const std::vector<std::pair<std::string, Matrix>> expected = {
      {"muon", {-.680661, .825540, .741295, .259440}},
      {"muloco", {-.520873, .854186, .850385, .501870}},
      {"polar_express", {-.610182, .943948, .924033, .510607}}};
  for (const auto& [name, values] : expected) {
    const Matrix x = applied(name, 2, 2, {1, 2, 3, 4});
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(x[i], values[i], 1e-6) << name << " " << i;
  }
}

// A diagonal matrix whose entries are its singular values, beside what fills its norm up to 1; all of it a
// thousandfold, so that what is added to the norm is nothing.
TEST(NewtonSchulz, TakesSingularValuesWhereThePageSays) {
  const std::vector<std::pair<std::string, Matrix>> expected = {
      {"muon", {.6964, .7121, .6989, .4705}},
      {"muloco", {.9783, 1.0190, 1.0180, .4750}},
      {"polar_express", {.9035, 1.0165, .9968, .8466}}};
  const Matrix values = {1, .1, .01, .001};
  for (const auto& [name, ends] : expected)
    for (std::size_t k = 0; k < values.size(); ++k) {
      Matrix x = {1e3 * values[k], 0, 0, 1e3 * std::sqrt(1 - values[k] * values[k])};
      EXPECT_NEAR(applied(name, 2, 2, x)[0], ends[k], 1e-4) << name << " " << values[k];
    }
}

/// The written recursion on the wide side, entry by entry.
Matrix by_loops(const std::string& name, std::int64_t rows, std::int64_t columns, Matrix x) {
  const auto at = [&](const Matrix& m, std::int64_t width, std::int64_t i, std::int64_t j) {
    return m[static_cast<std::size_t>(i * width + j)];
  };
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= newton_schulz(name).norm_factor * std::sqrt(squares) + newton_schulz(name).epsilon;
  for (const auto& [a, b, c] : newton_schulz(name).polynomials) {
    Matrix gram(static_cast<std::size_t>(rows * rows)), next(x.size());
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < rows; ++j)
        for (std::int64_t k = 0; k < columns; ++k)
          gram[static_cast<std::size_t>(i * rows + j)] += at(x, columns, i, k) * at(x, columns, j, k);
    Matrix polynomial(gram.size());
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < rows; ++j) {
        double square = 0;
        for (std::int64_t k = 0; k < rows; ++k) square += at(gram, rows, i, k) * at(gram, rows, k, j);
        polynomial[static_cast<std::size_t>(i * rows + j)] = b * at(gram, rows, i, j) + c * square;
      }
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = a * at(x, columns, i, j);
        for (std::int64_t k = 0; k < rows; ++k) sum += at(polynomial, rows, i, k) * at(x, columns, k, j);
        next[static_cast<std::size_t>(i * columns + j)] = sum;
      }
    x = next;
  }
  return x;
}

TEST(NewtonSchulz, FollowsTheRecursionForEveryShape) {
  for (const std::string& name : newton_schulz_names())
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 7}, {5, 13}, {13, 5}, {16, 16}, {7, 1}}) {
      const std::vector<float> drawn = normal_numbers(rows * columns, 3);
      const Matrix x(drawn.begin(), drawn.end());
      const Matrix built = applied(name, rows, columns, x);
      // A tall matrix is the wide one's transpose.
      const bool tall = rows > columns;
      Matrix wide(x.size());
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          wide[static_cast<std::size_t>(tall ? j * rows + i : i * columns + j)] =
              x[static_cast<std::size_t>(i * columns + j)];
      const Matrix expected = by_loops(name, std::min(rows, columns), std::max(rows, columns), wide);
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          EXPECT_NEAR(built[static_cast<std::size_t>(i * columns + j)],
                      expected[static_cast<std::size_t>(tall ? j * rows + i : i * columns + j)], 1e-12)
              << name << " " << rows << "x" << columns;
      std::vector<float> single = drawn;
      Orthogonaliser<float>(newton_schulz(name)).apply(rows, columns, single.data());
      for (std::size_t i = 0; i < single.size(); ++i) EXPECT_NEAR(single[i], built[i], 1e-3) << name;
    }
}

TEST(NewtonSchulz, LeavesZerosAndRefusesUnknownNames) {
  for (const double v : applied("muloco", 3, 4, Matrix(12, 0.0))) EXPECT_EQ(v, 0);
  EXPECT_THROW((void)newton_schulz("cubic"), UsageError);
}

template <typename T>
void orthonormal(double within) {
  std::vector<double> work;
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {9, 4}, {64, 16}, {17, 17}}) {
    const std::vector<float> drawn = normal_numbers(rows * columns, 11);
    std::vector<T> a(drawn.begin(), drawn.end());
    ASSERT_EQ(orthonormal_columns<T>(rows, columns, a.data(), work), columns);
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t k = 0; k <= j; ++k) {
        double product = 0, along = 0;
        for (std::int64_t i = 0; i < rows; ++i) {
          product += static_cast<double>(a[static_cast<std::size_t>(i * columns + j)]) *
                     static_cast<double>(a[static_cast<std::size_t>(i * columns + k)]);
          along += static_cast<double>(a[static_cast<std::size_t>(i * columns + j)]) *
                   static_cast<double>(drawn[static_cast<std::size_t>(i * columns + j)]);
        }
        EXPECT_NEAR(product, j == k ? 1 : 0, within) << rows << "x" << columns;
        EXPECT_GT(along, 0) << "the diagonal of R is positive";
      }
    // Columns of Q span those of A: A - Q Q^T A is nothing.
    for (std::int64_t j = 0; j < columns; ++j) {
      std::vector<double> left(static_cast<std::size_t>(rows));
      for (std::int64_t i = 0; i < rows; ++i)
        left[static_cast<std::size_t>(i)] =
            static_cast<double>(drawn[static_cast<std::size_t>(i * columns + j)]);
      for (std::int64_t k = 0; k < columns; ++k) {
        double along = 0;
        for (std::int64_t i = 0; i < rows; ++i)
          along += static_cast<double>(a[static_cast<std::size_t>(i * columns + k)]) *
                   static_cast<double>(drawn[static_cast<std::size_t>(i * columns + j)]);
        for (std::int64_t i = 0; i < rows; ++i)
          left[static_cast<std::size_t>(i)] -=
              along * static_cast<double>(a[static_cast<std::size_t>(i * columns + k)]);
      }
      for (const double v : left) EXPECT_NEAR(v, 0, 10 * within);
    }
  }
}

TEST(OrthonormalColumns, AreThoseOfAThinQr) {
  orthonormal<double>(1e-13);
  orthonormal<float>(2e-6);
}

TEST(OrthonormalColumns, ThatDependOnEarlierOnesAreZero) {
  std::vector<double> a = {1, 2, 0, 3, 2, 4, 0, -1, 3, 6, 0, 1},
                      work;  // the second is twice the first, the third is zero
  EXPECT_EQ(orthonormal_columns<double>(3, 4, a.data(), work), 2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a[4 * i + 1], 0);
    EXPECT_EQ(a[4 * i + 2], 0);
  }
}

}  // namespace
}  // namespace thinwire
