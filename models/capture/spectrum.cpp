#include "models/capture/spectrum.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "kernels/nn/gemm/gemm.h"

// LAPACK inside OpenBLAS; Debian ships its C header in a package of its own.
extern "C" void dsyevd_(const char* job, const char* triangle, const int* n, double* a, const int* lda,
                        double* eigenvalues, double* work, const int* work_size, int* iwork,
                        const int* iwork_size, int* info);

namespace thinwire {

std::vector<double> normalised_singular_values(std::int64_t rows, std::int64_t columns, const float* x,
                                               bool centred, std::int64_t max_rows) {
  const std::int64_t used = std::min(rows, max_rows);
  std::vector<double> matrix(static_cast<std::size_t>(used * columns)),
      mean(static_cast<std::size_t>(columns));
  for (std::int64_t r = 0; r < used; ++r)
    std::copy_n(x + r * rows / used * columns, columns, matrix.begin() + r * columns);
  if (centred) {
    for (std::int64_t r = 0; r < used; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        mean[static_cast<std::size_t>(c)] +=
            matrix[static_cast<std::size_t>(r * columns + c)] / static_cast<double>(used);
    for (std::int64_t r = 0; r < used; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        matrix[static_cast<std::size_t>(r * columns + c)] -= mean[static_cast<std::size_t>(c)];
  }
  const std::int64_t n = std::min(used, columns);
  std::vector<double> gram(static_cast<std::size_t>(n * n)), eigenvalues(static_cast<std::size_t>(n));
  using nn::Transpose;
  if (columns <= used)
    nn::gemm<double>(Transpose::yes, Transpose::no, n, n, used, 1.0, matrix.data(), columns, matrix.data(),
                     columns, 0.0, gram.data(), n);
  else
    nn::gemm<double>(Transpose::no, Transpose::yes, n, n, columns, 1.0, matrix.data(), columns, matrix.data(),
                     columns, 0.0, gram.data(), n);
  const int size = static_cast<int>(n), query = -1;
  int info = 0, iwork_size = 0;
  double work_size = 0;
  dsyevd_("N", "U", &size, gram.data(), &size, eigenvalues.data(), &work_size, &query, &iwork_size, &query,
          &info);
  std::vector<double> work(static_cast<std::size_t>(work_size));
  std::vector<int> iwork(static_cast<std::size_t>(iwork_size));
  const int work_count = static_cast<int>(work_size);
  if (info == 0)
    dsyevd_("N", "U", &size, gram.data(), &size, eigenvalues.data(), work.data(), &work_count, iwork.data(),
            &iwork_size, &info);
  if (info != 0)
    throw RuntimeFailure("LAPACK's dsyevd failed (info " + std::to_string(info) + ") on a matrix of " +
                         std::to_string(rows) + " x " + std::to_string(columns) +
                         ". Check the matrix for values that are not finite.");
  std::vector<double> values(eigenvalues.rbegin(), eigenvalues.rend());
  for (double& v : values) v = std::sqrt(std::max(0.0, v));
  const double first = values.empty() ? 0.0 : values.front();
  if (first > 0)
    for (double& v : values) v /= first;
  return values;
}

}  // namespace thinwire
