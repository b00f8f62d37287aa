// Orthonormal columns for tall, narrow matrices (PowerSGD's P [n, r] and Q [m, r]).
#pragma once

#include <cstdint>
#include <vector>

namespace thinwire {

/// Modified Gram-Schmidt as PowerSGD's authors and Optimus-CC do it (docs/papers/optimus_cc.md, "The method, as built here"), in f32,
/// column by column: a /= ||a|| + epsilon, then its projection is removed from the later columns. A column that
/// depends on earlier ones becomes normalised rounding noise. `a` is [rows, columns], row-major.
void modified_gram_schmidt(float* a, std::int64_t rows, std::int64_t columns, float epsilon = 1e-8f);

/// Orthonormalises columns by Cholesky-QR (Gram matrix, its Cholesky factor R, A <- A inverse(R)), in float64
/// block by block so that the matrix itself passes through the cache only; a second round where the first one's
/// conditioning leaves less than f32 accuracy (Cholesky-QR2); Gram-Schmidt with re-orthogonalisation where the
/// Gram matrix is too ill-conditioned for Cholesky.
/// A column that depends on earlier ones (its rest is below 1e-6 of its length) becomes exactly zero, so that
/// P P^T stays a projector whatever the rank of the input. Deterministic for a given number of threads.
class Orthonormaliser {
 public:
  /// In place on `a` [rows, columns], row-major; columns <= rows is not required. Returns the number of
  /// non-zero columns. The input must be finite.
  std::int64_t apply(float* a, std::int64_t rows, std::int64_t columns);

 private:
  enum class Conditioning { good, fair, bad };
  void gram_matrix(const float* a, std::int64_t rows, std::int64_t columns);
  Conditioning factorise(std::int64_t columns);
  void solve(float* a, std::int64_t rows, std::int64_t columns);
  std::int64_t gram_schmidt(float* a, std::int64_t rows, std::int64_t columns);

  std::vector<double> gram_;    // one per thread; the first holds their sum, then R
  std::vector<double> blocks_;  // one block of rows per thread
  std::vector<double> work_;    // the whole matrix, for Gram-Schmidt only
  std::vector<double> squares_; // squared lengths of the columns
};

}  // namespace thinwire
