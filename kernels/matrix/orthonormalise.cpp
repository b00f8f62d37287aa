#include "kernels/matrix/orthonormalise.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>

extern "C" void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);

namespace thinwire {
namespace {

constexpr double dependent_column = 1e-6;  // of its length: what f32 input can tell from rounding noise

}  // namespace

void modified_gram_schmidt(float* a, std::int64_t rows, std::int64_t columns, float epsilon) {
  for (std::int64_t j = 0; j < columns; ++j) {
    double square = 0;
    for (std::int64_t i = 0; i < rows; ++i) square += double{a[i * columns + j]} * a[i * columns + j];
    const float length = static_cast<float>(std::sqrt(square)) + epsilon;
    for (std::int64_t i = 0; i < rows; ++i) a[i * columns + j] /= length;
    for (std::int64_t l = j + 1; l < columns; ++l) {
      double dot = 0;
      for (std::int64_t i = 0; i < rows; ++i) dot += double{a[i * columns + j]} * a[i * columns + l];
      const float d = static_cast<float>(dot);
      for (std::int64_t i = 0; i < rows; ++i) a[i * columns + l] -= d * a[i * columns + j];
    }
  }
}

// work_ <- work_ * inverse(R), R the Cholesky factor of its Gram matrix. False (work_ untouched) when R says
// that a column nearly depends on the others.
bool Orthonormaliser::cholesky_pass(std::int64_t rows, std::int64_t columns) {
  const int r = static_cast<int>(columns), n = static_cast<int>(rows);
  cblas_dsyrk(CblasColMajor, CblasUpper, CblasNoTrans, r, n, 1.0, work_.data(), r, 0.0, gram_.data(), r);
  std::vector<double>::iterator diagonal = gram_.begin() + columns * columns;  // original squared lengths
  for (std::int64_t j = 0; j < columns; ++j) {
    diagonal[j] = gram_[static_cast<std::size_t>(j * columns + j)];
    if (!(diagonal[j] > 0)) return false;
  }
  int info = 0;
  dpotrf_("U", &r, gram_.data(), &r, &info);
  if (info != 0) return false;
  for (std::int64_t j = 0; j < columns; ++j) {
    const double rest = gram_[static_cast<std::size_t>(j * columns + j)];
    // Below 1e-5 of the column's length the float64 Gram matrix (1e-16 relative) leaves too few digits.
    if (!(rest * rest > 1e-10 * diagonal[j])) return false;
  }
  // Row-major [rows, r] is column-major [r, rows]: A <- A inverse(R) is A^T <- inverse(R)^T A^T.
  cblas_dtrsm(CblasColMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit, r, n, 1.0, gram_.data(), r, work_.data(), r);
  return true;
}

std::int64_t Orthonormaliser::gram_schmidt(std::int64_t rows, std::int64_t columns) {
  std::int64_t rank = 0;
  for (std::int64_t j = 0; j < columns; ++j) {
    const auto at = [&](std::int64_t i, std::int64_t l) -> double& { return work_[static_cast<std::size_t>(i * columns + l)]; };
    const auto dot = [&](std::int64_t l, std::int64_t q) {
      return cblas_ddot(static_cast<int>(rows), &at(0, l), static_cast<int>(columns), &at(0, q), static_cast<int>(columns));
    };
    const double length = std::sqrt(dot(j, j));
    for (int pass = 0; pass < 2; ++pass)  // twice is enough (Kahan, Parlett)
      for (std::int64_t l = 0; l < j; ++l) {
        const double d = dot(l, j);
        for (std::int64_t i = 0; i < rows; ++i) at(i, j) -= d * at(i, l);
      }
    const double rest = std::sqrt(dot(j, j));
    const bool keep = rest > dependent_column * length;
    for (std::int64_t i = 0; i < rows; ++i) at(i, j) = keep ? at(i, j) / rest : 0.0;
    rank += keep;
  }
  return rank;
}

std::int64_t Orthonormaliser::apply(float* a, std::int64_t rows, std::int64_t columns) {
  if (rows == 0 || columns == 0) return 0;
  const auto count = static_cast<std::size_t>(rows * columns);
  if (work_.size() < count) work_.resize(count);
  const auto gram = static_cast<std::size_t>(columns * (columns + 1));
  if (gram_.size() < gram) gram_.resize(gram);
  std::copy(a, a + count, work_.begin());
  std::int64_t rank = columns;
  const bool cholesky = columns <= rows && cholesky_pass(rows, columns) && cholesky_pass(rows, columns);
  if (!cholesky) {
    std::copy(a, a + count, work_.begin());
    rank = gram_schmidt(rows, columns);
  }
  for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<float>(work_[i]);
  return rank;
}

}  // namespace thinwire
