#include "kernels/matrix/orthonormalise.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "kernels/threads.h"

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

namespace {

constexpr std::int64_t block_rows = 256;  // 256 x 64 float64 = half of a second-level cache of 256 KiB

template <typename T>
void reserve(std::vector<T>& v, std::int64_t count) {
  if (static_cast<std::int64_t>(v.size()) < count) v.resize(static_cast<std::size_t>(count));
}

void widen(const float* from, double* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

// Rows for which waking another thread pays: about 32 k multiplications.
std::int64_t grain_for(std::int64_t columns) { return std::max<std::int64_t>(block_rows, 64 * 1024 / (columns * columns)); }

}  // namespace

void Orthonormaliser::gram_matrix(const float* a, std::int64_t rows, std::int64_t columns) {
  const std::int64_t size = columns * columns, threads = omp_get_max_threads();
  const int r = static_cast<int>(columns);
  reserve(gram_, threads * size);
  reserve(blocks_, threads * block_rows * columns);
  std::fill(gram_.begin(), gram_.begin() + threads * size, 0.0);
  parallel_ranges(rows, grain_for(columns), 64, [&](std::int64_t begin, std::int64_t end, int thread) {
    double* block = blocks_.data() + thread * block_rows * columns;
    for (std::int64_t first = begin; first < end; first += block_rows) {
      const std::int64_t count = std::min(block_rows, end - first);
      widen(a + first * columns, block, count * columns);
      // Row-major [count, r] is column-major [r, count].
      cblas_dsyrk(CblasColMajor, CblasUpper, CblasNoTrans, r, static_cast<int>(count), 1.0, block, r, 1.0, gram_.data() + thread * size, r);
    }
  });
  for (std::int64_t t = 1; t < threads; ++t)
    for (std::int64_t i = 0; i < size; ++i) gram_[static_cast<std::size_t>(i)] += gram_[static_cast<std::size_t>(t * size + i)];
}

// The Cholesky factor in place of the Gram matrix. What is left of a column when its projection on the earlier
// ones is taken away says how much a float64 Gram matrix (1e-16 relative, squared lengths) knows about it.
Orthonormaliser::Conditioning Orthonormaliser::factorise(std::int64_t columns) {
  const int r = static_cast<int>(columns);
  reserve(squares_, columns);
  for (std::int64_t j = 0; j < columns; ++j) {
    squares_[static_cast<std::size_t>(j)] = gram_[static_cast<std::size_t>(j * columns + j)];
    if (!(squares_[static_cast<std::size_t>(j)] > 0)) return Conditioning::bad;
  }
  int info = 0;
  dpotrf_("U", &r, gram_.data(), &r, &info);
  if (info != 0) return Conditioning::bad;
  double least = 1;
  for (std::int64_t j = 0; j < columns; ++j) {
    const double rest = gram_[static_cast<std::size_t>(j * columns + j)];
    least = std::min(least, rest * rest / squares_[static_cast<std::size_t>(j)]);
  }
  return least > 1e-8 ? Conditioning::good : least > 1e-10 ? Conditioning::fair : Conditioning::bad;
}

void Orthonormaliser::solve(float* a, std::int64_t rows, std::int64_t columns) {
  const int r = static_cast<int>(columns);
  parallel_ranges(rows, grain_for(columns), 64, [&](std::int64_t begin, std::int64_t end, int thread) {
    double* block = blocks_.data() + thread * block_rows * columns;
    for (std::int64_t first = begin; first < end; first += block_rows) {
      const std::int64_t count = std::min(block_rows, end - first);
      float* part = a + first * columns;
      widen(part, block, count * columns);
      // A <- A inverse(R) is A^T <- inverse(R)^T A^T.
      cblas_dtrsm(CblasColMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit, r, static_cast<int>(count), 1.0, gram_.data(), r, block, r);
#pragma omp simd
      for (std::int64_t i = 0; i < count * columns; ++i) part[i] = static_cast<float>(block[i]);
    }
  });
}

std::int64_t Orthonormaliser::gram_schmidt(float* a, std::int64_t rows, std::int64_t columns) {
  const std::int64_t count = rows * columns;
  reserve(work_, count);
  std::copy(a, a + count, work_.begin());
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
  for (std::int64_t i = 0; i < count; ++i) a[i] = static_cast<float>(work_[static_cast<std::size_t>(i)]);
  return rank;
}

std::int64_t Orthonormaliser::apply(float* a, std::int64_t rows, std::int64_t columns) {
  if (rows == 0 || columns == 0) return 0;
  if (columns > rows) return gram_schmidt(a, rows, columns);
  gram_matrix(a, rows, columns);
  Conditioning conditioning = factorise(columns);
  if (conditioning == Conditioning::bad) return gram_schmidt(a, rows, columns);
  solve(a, rows, columns);
  if (conditioning == Conditioning::good) return columns;
  gram_matrix(a, rows, columns);
  conditioning = factorise(columns);
  if (conditioning != Conditioning::good) return gram_schmidt(a, rows, columns);
  solve(a, rows, columns);
  return columns;
}

}  // namespace thinwire
