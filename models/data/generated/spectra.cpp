// power_law: singular values sigma_i = i^-exponent (i = 1..min(rows, columns)) with random orthonormal factors. low_rank: a signal of `rank` equal singular
// values, plus normal noise. Both are scaled to root mean square 1 (the noise apart).
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "kernels/nn/gemm/gemm.h"
#include "models/data/generated/generators.h"

// LAPACK inside OpenBLAS: orthonormal factors by Householder QR.
extern "C" {
void sgeqrf_(const int* m, const int* n, float* a, const int* lda, float* tau, float* work,
             const int* work_size, int* info);
void sorgqr_(const int* m, const int* n, const int* k, float* a, const int* lda, const float* tau,
             float* work, const int* work_size, int* info);
}

namespace thinwire {
namespace {

using nn::Transpose;

/// Column-major [rows, k] with orthonormal columns, k <= rows, uniformly distributed up to signs.
std::vector<float> orthonormal_columns(std::int64_t rows, std::int64_t k, const Random& random) {
  std::vector<float> q(static_cast<std::size_t>(rows * k)), tau(static_cast<std::size_t>(k));
  fill_normal(random, q);
  const int m = static_cast<int>(rows), n = static_cast<int>(k), query = -1;
  int info = 0;
  float size1 = 0, size2 = 0;
  sgeqrf_(&m, &n, q.data(), &m, tau.data(), &size1, &query, &info);
  sorgqr_(&m, &n, &n, q.data(), &m, tau.data(), &size2, &query, &info);
  const int size = static_cast<int>(std::max(size1, size2));
  std::vector<float> work(static_cast<std::size_t>(size));
  sgeqrf_(&m, &n, q.data(), &m, tau.data(), work.data(), &size, &info);
  TW_ASSERT(info == 0);
  sorgqr_(&m, &n, &n, q.data(), &m, tau.data(), work.data(), &size, &info);
  TW_ASSERT(info == 0);
  return q;
}

/// to = U diag(sigma) V^T.
void with_spectrum(std::int64_t rows, std::int64_t columns, const std::vector<double>& sigma,
                   std::uint64_t seed, std::uint64_t stream, std::span<float> to) {
  const auto k = static_cast<std::int64_t>(sigma.size());
  std::vector<float> u = orthonormal_columns(rows, k, Random(seed, mix_stream(stream, 1)));
  const std::vector<float> v = orthonormal_columns(columns, k, Random(seed, mix_stream(stream, 2)));
  for (std::int64_t j = 0; j < k; ++j)
    for (std::int64_t r = 0; r < rows; ++r)
      u[static_cast<std::size_t>(j * rows + r)] *= static_cast<float>(sigma[static_cast<std::size_t>(j)]);
  // Column-major [rows, k] is row-major [k, rows].
  nn::gemm<float>(Transpose::yes, Transpose::no, rows, columns, k, 1.0f, u.data(), rows, v.data(), columns,
                  0.0f, to.data(), columns);
}

/// sigma, scaled to root mean square 1, with factors of this rank's own.
void fill(std::vector<double> sigma, const Shape& shape, const Draws& draws, std::span<float> to) {
  double squares = 0;
  for (const double s : sigma) squares += s * s;
  for (double& s : sigma) s *= std::sqrt(static_cast<double>(shape.rows() * shape.columns()) / squares);
  with_spectrum(shape.rows(), shape.columns(), sigma, draws.seed, draws.stream, to);
}

const bool power_law = register_generator({.kind = "power_law",
                                           .summary = "singular values i^-exponent, random orthonormal factors, root mean square 1",
                                           .parameters = {{"exponent", {1.0, 0, 20}}},
                                           .generate = [](const Generator& g, const Shape& shape, const Draws& draws, std::span<float> to) {
                                             std::vector<double> sigma;
                                             for (std::int64_t i = 1; i <= std::min(shape.rows(), shape.columns()); ++i) sigma.push_back(std::pow(static_cast<double>(i), -g.at("exponent")));
                                             fill(std::move(sigma), shape, draws, to);
                                           }});

const bool low_rank = register_generator({.kind = "low_rank",
                                          .summary = "signal of rank `rank` and root mean square 1, plus normal noise of deviation `noise`",
                                          .parameters = {{"rank", {16, 1, 1e6}}, {"noise", {0.01, 0, 1e6}}},
                                          .generate = [](const Generator& g, const Shape& shape, const Draws& draws, std::span<float> to) {
                                            const auto k = std::min({shape.rows(), shape.columns(), static_cast<std::int64_t>(g.at("rank"))});
                                            fill(std::vector<double>(static_cast<std::size_t>(k), 1.0), shape, draws, to);
                                            if (g.at("noise") <= 0) return;
                                            std::vector<float> noise(to.size());
                                            fill_normal(draws.values(), noise, g.at("noise"));
                                            for (std::size_t i = 0; i < to.size(); ++i) to[i] += noise[i];
                                          }});

}  // namespace
}  // namespace thinwire
