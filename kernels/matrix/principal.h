// Principal directions of rows: the best linear auto-encoder without bias (Eckart and Young, 1936).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

/// Sum over samples of X^T X in float64; every sample is [rows_i, columns], f32 on the host. Row-major, symmetric.
std::vector<double> gram_matrix(std::span<const ConstTensorView> samples);

/// Eigenvectors of the `count` largest eigenvalues of a symmetric matrix [n, n], as rows of the result
/// [count, n], largest first; each vector's largest entry is positive, so equal inputs give equal results on
/// every rank. LAPACK's dsyevd up to n = 1024; subspace iteration with Rayleigh-Ritz above (O(n^2 count)).
std::vector<double> leading_eigenvectors(std::vector<double> symmetric, std::int64_t n, std::int64_t count);

}  // namespace thinwire
