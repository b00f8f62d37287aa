#include "kernels/matrix/principal.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

extern "C" void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w,
                        double* work, const int* lwork, int* iwork, const int* liwork, int* info);
extern "C" void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work, const int* lwork, int* info);
extern "C" void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau,
                        double* work, const int* lwork, int* info);

namespace thinwire {
namespace {

using Matrix = std::vector<double>;

// Eigenvectors in the columns of the column-major result, eigenvalues ascending.
void eigen_symmetric(Matrix& a, std::int64_t n) {
  const int order = static_cast<int>(n), query = -1;
  std::vector<double> values(static_cast<std::size_t>(n));
  double work_size = 0;
  int iwork_size = 0, info = 0;
  dsyevd_("V", "U", &order, a.data(), &order, values.data(), &work_size, &query, &iwork_size, &query, &info);
  std::vector<double> work(static_cast<std::size_t>(work_size));
  std::vector<int> iwork(static_cast<std::size_t>(iwork_size));
  const int lwork = static_cast<int>(work.size()), liwork = static_cast<int>(iwork.size());
  dsyevd_("V", "U", &order, a.data(), &order, values.data(), work.data(), &lwork, iwork.data(), &liwork, &info);
  if (info != 0) throw RuntimeFailure("principal directions: LAPACK dsyevd did not converge on a matrix of order " + std::to_string(n));
}

// Orthonormal basis of the columns of a column-major [n, k] matrix.
void orthonormal_basis(Matrix& a, std::int64_t n, std::int64_t k) {
  const int rows = static_cast<int>(n), columns = static_cast<int>(k), lwork = columns * 64;
  Matrix tau(static_cast<std::size_t>(k)), work(static_cast<std::size_t>(lwork));
  int info = 0;
  dgeqrf_(&rows, &columns, a.data(), &rows, tau.data(), work.data(), &lwork, &info);
  dorgqr_(&rows, &columns, &columns, a.data(), &rows, tau.data(), work.data(), &lwork, &info);
  TW_ASSERT(info == 0);
}

// Row-major [count, n] of the `count` last columns of a column-major [n, total] matrix, last first.
Matrix last_columns(const Matrix& a, std::int64_t n, std::int64_t total, std::int64_t count) {
  Matrix rows(static_cast<std::size_t>(count * n));
  for (std::int64_t i = 0; i < count; ++i) {
    const double* column = a.data() + (total - 1 - i) * n;
    const double* peak = std::max_element(column, column + n, [](double x, double y) { return std::abs(x) < std::abs(y); });
    const double sign = *peak < 0 ? -1 : 1;
    for (std::int64_t j = 0; j < n; ++j) rows[static_cast<std::size_t>(i * n + j)] = sign * column[j];
  }
  return rows;
}

}  // namespace

std::vector<double> gram_matrix(std::span<const ConstTensorView> samples) {
  TW_ASSERT(!samples.empty());
  const std::int64_t n = samples[0].shape().columns();
  Matrix gram(static_cast<std::size_t>(n * n), 0.0), block;
  constexpr std::int64_t block_rows = 512;
  for (const ConstTensorView& sample : samples) {
    TW_ASSERT(sample.shape().columns() == n);
    const auto x = sample.as<float>();
    for (std::int64_t first = 0; first < sample.shape().rows(); first += block_rows) {
      const std::int64_t count = std::min(block_rows, sample.shape().rows() - first);
      const auto part = x.subspan(static_cast<std::size_t>(first * n), static_cast<std::size_t>(count * n));
      block.assign(part.begin(), part.end());
      cblas_dsyrk(CblasColMajor, CblasUpper, CblasNoTrans, static_cast<int>(n), static_cast<int>(count), 1.0, block.data(),
                  static_cast<int>(n), 1.0, gram.data(), static_cast<int>(n));
    }
  }
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < j; ++i) gram[static_cast<std::size_t>(i * n + j)] = gram[static_cast<std::size_t>(j * n + i)];
  return gram;
}

std::vector<double> leading_eigenvectors(std::vector<double> symmetric, std::int64_t n, std::int64_t count) {
  TW_ASSERT(count >= 0 && count <= n);
  if (count == 0) return {};
  const std::int64_t k = std::min(n, count + std::max<std::int64_t>(16, count / 2));  // oversampled subspace
  if (n <= 1024 || 2 * k >= n) {
    eigen_symmetric(symmetric, n);
    return last_columns(symmetric, n, n, count);
  }
  const int order = static_cast<int>(n), width = static_cast<int>(k);
  const Random random(0, "principal directions");
  Matrix basis(static_cast<std::size_t>(n * k)), product(basis.size());
  for (std::size_t i = 0; i < basis.size(); ++i) basis[i] = random.normal(i);
  orthonormal_basis(basis, n, k);
  const auto apply = [&] {
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, order, width, order, 1.0, symmetric.data(), order, basis.data(), order,
                0.0, product.data(), order);
  };
  constexpr int iterations = 24;  // (lambda_k / lambda_count)^24: the rest mixes directions of nearly equal weight
  for (int i = 0; i < iterations; ++i) {
    apply();
    basis.swap(product);
    orthonormal_basis(basis, n, k);
  }
  apply();
  Matrix small(static_cast<std::size_t>(k * k)), ritz(basis.size());
  cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, width, width, order, 1.0, basis.data(), order, product.data(), order, 0.0,
              small.data(), width);
  eigen_symmetric(small, k);
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, order, width, width, 1.0, basis.data(), order, small.data(), width, 0.0,
              ritz.data(), order);
  return last_columns(ritz, n, k, count);
}

}  // namespace thinwire
